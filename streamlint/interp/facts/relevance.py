"""Which functions may queue work on a stream, by the names that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen
from streamlint.interp.facts import classes, decorators, touching
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import ClassV, FuncV
from streamlint.models import host, vocabulary
from streamlint.models.schema import Lib
from streamlint.models.torch import GRADIENT_HOOKS, MODULE_HOOKS
from streamlint.trace import MonitorKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from streamlint.interp.state.project import Project
    from streamlint.source import Span


@frozen()
class Relevant:
    """What of a module may queue work on a stream."""

    names: frozenset[str]
    """Names of functions and methods that touch streams, directly or through each other."""
    functions: frozenset[ir.FunctionDecl]
    """Those that matter whatever they name: kernels, methods that use a queue of a thread, and those that
    run hooks."""
    of_others: bool = False
    """Whether the module itself names no stream, and only uses code of others that does."""


def relevant(project: Project, module: ir.Module) -> Relevant:
    """What is worth running; ``Encoder.forward`` is not because ``Decoder.forward`` touches streams."""
    decls = list(ir.all_functions(module))
    hot = {decl.name for decl in decls if touching.touches(project, decl)}
    for imported in module.imports:
        if imported.attribute is not None:
            source = project.source(module, imported.module)
            found = project.imported(imported) if project.module(source) is not None else None
            match found:
                case FuncV(function=ir.FunctionDecl() as decl) if touching.touches(project, decl):
                    hot.add(imported.name)
                case ClassV(cls):
                    methods = {d.name for d in cls.methods.values() if touching.touches(project, d)}
                    hot |= methods | ({imported.name} if methods else set())
                case _:
                    pass
    partners = (decl for cls in ir.all_classes(module) for decl in _partners_of_threads(project, module, cls))
    results = (decl for cls in ir.all_classes(module) for decl in _readers_of_results(cls))
    own = {*_kernels(project, module), *partners, *results}
    hot |= {decl.name for decl in own} | touching.kernels_beside_pinned(module)
    hot -= {"__init__"}
    hot |= {
        cls.name
        for cls in ir.all_classes(module)
        if any(touching.touches(project, d) for d in cls.methods.values())
    }
    led = led_to(module, hot)
    return Relevant(led, frozenset(own | _running_hooks(module, led)))


def led_to(module: ir.Module, names: AbstractSet[str]) -> frozenset[str]:
    """Names of functions, with those of the functions of a module that lead to them."""
    hot = set(names)
    uses = [(decl, _uses(decl)) for decl in ir.all_functions(module)]
    while more := _led_to(module, uses, hot) - {"__init__"} - hot:
        hot |= more
    return frozenset(hot)


def leads(project: Project, function: ir.Function) -> bool:
    """Whether a function inside of another one uses what touches streams, maybe through others of its module.

    ``def hook(*_): self._reduce(p)``, and ``_reduce`` enters a stream.
    """
    return project.once(_LEADING, function.span, lambda: _leads(project, function))


def _leads(project: Project, function: ir.Function) -> bool:
    module = project.module(function.module)
    return module is not None and not relevant(project, module).names.isdisjoint(touching.names_in(function))


_LEADING: Kept[Span, bool] = Kept()


def _led_to(
    module: ir.Module, uses: Sequence[tuple[ir.FunctionDecl, frozenset[str]]], hot: AbstractSet[str]
) -> set[str]:
    """The functions that use one of the names, and the attributes that hold what such a function gave, or it.

    ``self.step = captured(self._step)`` holds a function that was defined inside of another one, which
    ``self.step()`` runs; ``self.stages = [self._load, self._work]`` holds methods.
    """
    functions = hot & module.functions.keys()
    code = functions | (hot & {name for cls in ir.all_classes(module) for name in cls.methods})
    telling = {f"{name}()" for name in functions} | code
    held = {
        name
        for decl, _ in uses
        if decl.name == "__init__"
        for name, sources in decl.given
        if not telling.isdisjoint(sources)
    }
    return (
        held | _led_by_methods(module, hot) | {decl.name for decl, used in uses if not hot.isdisjoint(used)}
    )


def _led_by_methods(module: ir.Module, hot: AbstractSet[str]) -> set[str]:
    """The classes of which a method uses a function or a class by its name: who has an object calls that.

    ``Offloaded.forward`` calls ``Upload.apply``, and ``train()`` only makes an ``Offloaded`` and calls it.
    """
    named = hot & (module.functions.keys() | {cls.name for cls in ir.all_classes(module)})
    return {
        cls.name
        for cls in ir.all_classes(module)
        if any(not named.isdisjoint(_uses(decl)) for decl in cls.methods.values())
    }


def _running_hooks(module: ir.Module, hot: AbstractSet[str]) -> set[ir.FunctionDecl]:
    """Methods of classes whose constructor registers hooks that touch streams.

    ``self.hooks = offload(net.blocks)`` registers some, and ``for block in self.net.blocks: x = block(x)``
    runs them, without the name of one.
    """
    registering = {decl.name for decl in ir.all_functions(module) if not _HOOKS.isdisjoint(decl.called)} & hot

    def registers(constructor: ir.FunctionDecl | None) -> bool:
        if constructor is None:
            return False
        itself = not _HOOKS.isdisjoint(constructor.called) and not hot.isdisjoint(constructor.names)
        return itself or not registering.isdisjoint(constructor.called)

    found = [cls for cls in ir.all_classes(module) if registers(cls.methods.get("__init__"))]
    return {decl for cls in found for decl in cls.methods.values() if decl.called}


_HOOKS = MODULE_HOOKS | GRADIENT_HOOKS


def _partners_of_threads(project: Project, module: ir.Module, cls: ir.ClassDecl) -> set[ir.FunctionDecl]:
    """Methods that put something into a queue of a class whose thread works on streams, or take it out.

    ``Thread(target=self._run)``, and ``def launch(self, job): self._jobs.put(job)``. Or ``Thread(target=fill,
    args=(self.ready, self.stream))``, and ``def __next__(self): return self.ready.get()``. Or it makes
    a thread of a class: ``self.writer = Writer(self.table, self.updates)``.
    """
    bodies = {**module.functions, **cls.methods}
    handed = {
        name
        for decl in cls.methods.values()
        for name in (decl.members & cls.methods.keys() | decl.names & module.functions.keys()) - decl.called
    }
    run = with_those_called(handed, bodies) | _bodies_of_threads(project, module, cls)
    if not any(touching.touches(project, decl) for decl in run):
        return set()
    return {decl for decl in cls.methods.values() if not _USES_QUEUES.isdisjoint(decl.called)}


def _bodies_of_threads(project: Project, module: ir.Module, cls: ir.ClassDecl) -> set[ir.FunctionDecl]:
    """What threads do whose class a method of another one calls: ``run``, and what that calls."""
    names = frozenset().union(*(decl.called - decl.members for decl in cls.methods.values()))
    found: set[ir.FunctionDecl] = set()
    for name in sorted(names):
        match project.member(module.name, name):
            case ClassV(made) if made is not cls and classes.is_thread(project, made):
                found |= with_those_called({_RUN}, classes.methods(project, made))
            case _:
                pass
    return found


_RUN = "run"


def with_those_called(names: AbstractSet[str], bodies: Mapping[str, ir.FunctionDecl]) -> set[ir.FunctionDecl]:
    """Functions, and those that they call: ``for rows in source: self.ready.put(self._upload(rows))``."""
    found: set[ir.FunctionDecl] = set()
    waiting = sorted(names & bodies.keys())
    while waiting:
        decl = bodies[waiting.pop()]
        if decl not in found:
            found.add(decl)
            waiting += sorted(decl.called & bodies.keys())
    return found


def _readers_of_results(cls: ir.ClassDecl) -> set[ir.FunctionDecl]:
    """Methods that use what others leave under way, of a class that records events and waits for nothing.

    ``self.host = x.to("cpu", non_blocking=True); self.done.record()`` in the constructor, and
    ``def result(self): return self.host``.
    """
    recording = [decl for decl in cls.methods.values() if not vocabulary.RECORDS.isdisjoint(decl.called)]
    others = [decl for decl in cls.methods.values() if decl not in recording]
    if not recording or any(not vocabulary.ORDERS.isdisjoint(decl.called) for decl in others):
        return set()
    left = {name for decl in recording for name, _ in decl.given}
    return {decl for decl in others if not left.isdisjoint(decl.own)}


_USES_QUEUES = ir.PUTS | host.WAITS[MonitorKind.QUEUE]


def _kernels(project: Project, module: ir.Module) -> frozenset[ir.FunctionDecl]:
    """Functions of the module that are launched, not called: ``scale[grid, block, self.s](x)``."""
    return frozenset(
        decl for decl in module.functions.values() if decorators.kernel_of(project, decl) is Lib.NUMBA
    )


def queues_work(project: Project, module: ir.Module, names: frozenset[str]) -> bool:
    """Whether code with these names may queue work on a stream."""
    return touching.names_touch(project, module, names) or any(
        one.name in names for one in _kernels(project, module)
    )


def is_relevant(project: Project, decl: ir.FunctionDecl, among: Relevant) -> bool:
    """Whether a function is worth running: it touches streams, or uses something that does."""
    return (
        touching.touches(project, decl) or decl in among.functions or not among.names.isdisjoint(_uses(decl))
    )


def _uses(decl: ir.FunctionDecl) -> frozenset[str]:
    """What a function may call: not its own name, which stands above it, nor its variables and keywords."""
    own = {decl.name} - decl.members - decl.called
    return decl.used - decl.keywords - own


def callers_first(decls: Sequence[ir.FunctionDecl]) -> list[ir.FunctionDecl]:
    """Functions before those that they mention, as far as there are no cycles."""
    by_name = {decl.name: decl for decl in sorted(decls, key=lambda decl: decl.span.line)}
    in_front = _before_mentioned({name: decl.names for name, decl in by_name.items()})
    return [by_name[name] for name in in_front]


def users_first(module: ir.Module) -> list[ir.ClassDecl]:
    """The classes of a module, each before those that its methods mention, as far as there are no cycles.

    How ``Server`` calls the ``Cache`` that it makes shows in which order the calls of a ``Cache`` are meant.
    """
    by_name = {cls.qualname: cls for cls in ir.all_classes(module)}
    mentions = {
        name: frozenset().union(*(decl.names for decl in cls.methods.values()))
        for name, cls in by_name.items()
    }
    return [by_name[name] for name in _before_mentioned(mentions)]


def _before_mentioned(mentions: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Names, each before those that it mentions; ``mentions`` has them in the order of the text."""
    places = {name: place for place, name in enumerate(mentions)}
    placed: dict[str, None] = {}
    seen: set[str] = set()
    # Not by recursion: a generated module may have a chain of thousands of functions.
    waiting = list(mentions)
    while waiting:
        name = waiting[-1]
        if name in seen:
            placed.setdefault(waiting.pop())
            continue
        seen.add(name)
        waiting += sorted(mentions[name] & places.keys() - seen, key=places.__getitem__)
    return list(reversed(placed))


def mentioned_in(module: ir.Module, decl: ir.FunctionDecl, functions: set[str]) -> bool:
    """Whether one of ``functions``, by module and qualified name, mentions ``decl``."""
    return any(
        decl.name in other.names and other is not decl and f"{module.name}:{other.qualname}" in functions
        for other in ir.all_functions(module)
    )
