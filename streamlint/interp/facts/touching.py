"""Which code may touch a stream, an event, a graph or an asynchronous copy: by what its names stand for.

A name tells if the tables have it (``wait_stream``, ``non_blocking``), or if code puts into it what such a
call gives: ``self.lane = torch.cuda.Stream()`` makes ``lane`` a name that tells, and
``self.mine = self.lane`` the name ``mine``. How a name sounds tells nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.state.kept import Kept
from streamlint.models import python, vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project
    from streamlint.source import Span

_TOUCHES: Kept[ir.FunctionDecl, bool] = Kept()
_FOLLOWS: Kept[Span, bool] = Kept()
"""By the places of functions."""
_USES_TOUCHING: Kept[ir.FunctionDecl, bool] = Kept()
_MAKES_HOLDER: Kept[ir.FunctionDecl, bool] = Kept()
_LEADING: Kept[str, frozenset[str]] = Kept()
_TELLING: Kept[str, frozenset[str]] = Kept()
_HOLDERS: Kept[str, frozenset[str]] = Kept()
"""By the names of modules."""


def touches(project: Project, decl: ir.FunctionDecl) -> bool:
    """Whether a function may touch a stream."""
    return project.once(_TOUCHES, decl, lambda: _touches(project, decl))


def _touches(project: Project, decl: ir.FunctionDecl) -> bool:
    module = project.module(decl.module)
    # A parameter ``stream`` is no call of ``torch.cuda.stream``.
    return module is not None and (names_touch(project, module, decl.used) or enters_unknown(module, decl))


def names_in(function: ir.Function) -> frozenset[str]:
    """The names and attributes that a function inside of another one uses, with those inside of it."""
    nodes = list(ir.walk(function.body, functions=True))
    plain = {node.id for node in nodes if isinstance(node, ir.Name)}
    return frozenset(plain | {node.name for node in nodes if isinstance(node, ir.Attr)})


def uses_touching(project: Project, decl: ir.Function | ir.FunctionDecl) -> bool:
    """Whether a function uses the name of one of its module that may touch a stream."""
    return isinstance(decl, ir.FunctionDecl) and project.once(
        _USES_TOUCHING, decl, lambda: _uses_touching(project, decl)
    )


def _uses_touching(project: Project, decl: ir.FunctionDecl) -> bool:
    module = project.module(decl.module)
    if module is None:
        return False
    leading = project.once(_LEADING, decl.module, lambda: frozenset(_names_leading(project, module)))
    return not leading.isdisjoint(decl.used - {decl.name})


def _names_leading(project: Project, module: ir.Module) -> Iterator[str]:
    """The names of the functions of a module that may touch a stream."""
    return (decl.name for decl in ir.all_functions(module) if touches(project, decl))


def makes_holder(project: Project, function: ir.Function | ir.FunctionDecl) -> bool:
    """Whether a function makes an object of a class of its module whose constructor touches a stream.

    ``if device not in _STATES: _STATES[device] = DeviceState(device)``, and the state has a stream.
    """
    return isinstance(function, ir.FunctionDecl) and project.once(
        _MAKES_HOLDER, function, lambda: _makes_holder(project, function)
    )


def _makes_holder(project: Project, decl: ir.FunctionDecl) -> bool:
    module = project.module(decl.module)
    if module is None:
        return False
    constructors = (
        module.classes[name].methods.get("__init__") for name in decl.called & module.classes.keys()
    )
    return any(decl is not None and touches(project, decl) for decl in constructors)


def may_touch(project: Project, function: ir.Function | ir.FunctionDecl) -> bool:
    """The same for any function; one that is defined inside of another may."""
    return touches(project, function) if isinstance(function, ir.FunctionDecl) else True


def follows(project: Project, function: ir.Function | ir.FunctionDecl) -> bool:
    """Whether a function leaves the stream that it works on, and all order, to who calls it.

    ``def to_host(x): return x.to("cpu", non_blocking=True)`` is called in the block of a stream. So is what
    another file calls for each part there: ``for_each(batch, lambda x: x.to(device, non_blocking=True))``.
    """
    return project.once(_FOLLOWS, function.span, lambda: _follows(project, function))


def _follows(project: Project, function: ir.Function | ir.FunctionDecl) -> bool:
    module = project.module(function.module)
    if module is None:
        return False
    if isinstance(function, ir.FunctionDecl):
        enters, names = enters_unknown(module, function), function.used
    else:
        enters = any(isinstance(node, ir.With) for node in ir.walk(function.body))
        names = names_in(function)
    return not enters and not names_touch(project, module, names - vocabulary.FOLLOWS)


def by_others(project: Project, function: ir.Function | ir.FunctionDecl) -> bool:
    """Whether it touches a stream itself, or a function of its module does that it uses.

    ``def queued(f): return lambda *args: launch(f, *args)``, and ``launch`` asks for the current stream.
    """
    return may_touch(project, function) or uses_touching(project, function)


def enters_unknown(module: ir.Module, decl: ir.FunctionDecl) -> bool:
    """Whether it enters what it was given: ``def add(x, lane): with lane: ...``; not a lock made here."""
    if not decl.entered or vocabulary.ROOTS.isdisjoint(module.roots):
        return False
    return not decl.entered <= {name for name, _ in _gifts(module)}


def names_touch(project: Project, module: ir.Module, names: frozenset[str]) -> bool:
    """Whether code with these names may, in a module."""
    return not told_in(project, module).isdisjoint(names)


def surely(project: Project, module: ir.Module, names: frozenset[str]) -> bool:
    """Whether code with these names does: what it uses is hardly anything else than a stream's."""
    known = vocabulary.STRONG | vocabulary.beside(module.roots) | holders(project, module)
    return not known.isdisjoint(names) or any(pair <= names for pair in vocabulary.PAIRS)


def told_in(project: Project, module: ir.Module) -> frozenset[str]:
    """The names that tell in a module."""
    return project.once(
        _TELLING,
        module.name,
        lambda: (
            vocabulary.known_to(module.roots, vocabulary.TELLING)
            | vocabulary.beside(module.roots)
            | holders(project, module)
        ),
    )


def holders(project: Project, module: ir.Module) -> frozenset[str]:
    """Attributes and variables that hold a stream, an event or a graph, and functions that return one."""
    return project.once(_HOLDERS, module.name, lambda: _holders(module))


def _holders(module: ir.Module) -> frozenset[str]:
    foreign = _foreign(module)
    known = vocabulary.giving(module.roots) - foreign - {f"{name}()" for name in foreign}
    gifts = _plain(module)
    held = frozenset[str]()
    while more := {name for name, sources in gifts if not sources.isdisjoint(known)} - held:
        held |= more
        known |= more | {f"{name}()" for name in more}
    return held


def _plain(module: ir.Module) -> list[tuple[str, frozenset[str]]]:
    """What is given, by last names, without what comes from elsewhere: ``threading.Event()``."""
    elsewhere = {
        imported.name
        for imported in module.imports
        if imported.attribute is None and imported.module.partition(".")[0] in python.HAVE_EVENTS
    }
    return [
        (name, frozenset(last for source in sources if (last := _last(source, elsewhere))))
        for name, sources in _gifts(module)
    ]


def _last(source: str, elsewhere: set[str]) -> str:
    owner, _, last = source.rpartition(".")
    return "" if owner in elsewhere else last


def used_by(module: ir.Module) -> Iterator[frozenset[str]]:
    """The names that the body of a module and each of its functions use.

    Without the functions' own variables, and keywords: ``elapsed_time = time.time() - start`` reads no event,
    and ``launch(x, stream=s)`` next to ``cuda.Tensor`` enters no stream. A flag tells wherever it stands:
    ``x.to(device, dtype, non_blocking)``.
    """
    yield module.body_names
    for decl in ir.all_functions(module):
        yield (decl.used - decl.keywords) | (decl.text_names & vocabulary.FLAGS)


def _foreign(module: ir.Module) -> frozenset[str]:
    """Names that the module imports from elsewhere: ``from threading import Event``."""
    return frozenset(
        imported.name
        for imported in module.imports
        if imported.attribute is not None and imported.module.partition(".")[0] in python.HAVE_EVENTS
    )


def _gifts(module: ir.Module) -> Iterator[tuple[str, frozenset[str]]]:
    yield from module.body_given
    for decl in ir.all_functions(module):
        for name, sources in decl.given:
            yield name or decl.name, sources


def kernels_beside_pinned(module: ir.Module) -> frozenset[str]:
    """What holds a kernel where there is pinned memory, which kernels use in place while the host goes on.

    ``self.mix = module.get_function("mix")`` in one method, ``self.mix(rows, page)`` in another.
    """
    if not any(names & vocabulary.PINS for names in used_by(module)):
        return frozenset()
    return frozenset(
        name for name, sources in _plain(module) if not sources.isdisjoint(vocabulary.makes_kernel())
    )


def makes_streams(names: frozenset[str]) -> bool:
    """Whether code with these names may create a stream or an event."""
    return not MAKES.isdisjoint(names)


MAKES = vocabulary.MAKES_STREAM | vocabulary.MAKES_EVENT
