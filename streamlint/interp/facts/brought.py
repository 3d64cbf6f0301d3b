"""What modules that name no stream bring together: code of others that works on streams.

``weights = self.mover.bring(row)``, and then ``self.model(weights)``: who uses them too early stands in one
file, the stream that may still write them in another. Or ``Thread(target=show, args=(frames,)).start()``, and
then ``track(frames)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import classes, touching
from streamlint.interp.facts.relevance import Relevant, led_to
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import ClassV, FuncV, ModuleV, Value
from streamlint.models import python, vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project

_MAKERS = frozenset(
    path.rpartition(".")[2] for path in python.THREADS - python.PROCESSES | python.EXECUTORS | python.POOLS
)
_LEAVES: Kept[ir.FunctionDecl, bool] = Kept()
_RUN: Kept[ir.FunctionDecl, frozenset[ir.FunctionDecl]] = Kept()
_OWNERS: Kept[str, dict[ir.FunctionDecl, ir.ClassDecl]] = Kept()
_GIVEN_BY: Kept[ir.FunctionDecl, frozenset[ir.ClassDecl]] = Kept()


def brought(project: Project, module: ir.Module) -> Relevant | None:
    """What of a module without streams is worth running; None where it is nothing.

    That is what leads to functions of others which may leave work under way, what makes objects for others
    that ask those to, what classes add to those of others, and what starts threads.
    """
    imported = list(_imported(project, module))
    used = module.body_names.union(*(decl.used for decl in ir.all_functions(module)))
    parts = [part for bound, value in imported for part in _parts(project, used, bound, value)]
    names = {bound for bound, value in parts if _leaves_itself(project, value)}
    asked = [(bound, value, leaving) for bound, value in parts if (leaving := _asked(project, value))]
    takers = [(value, _members(value)) for _, value in parts] if asked else []
    own = frozenset[str]().union(*(decl.members - decl.own for decl in ir.all_functions(module)))
    for bound, value, leaving in asked:
        names |= leaving
        others = (members for other, members in takers if other is not value)
        if any(not leaving.isdisjoint(members) for members in (own, *others)):
            names.add(bound)
    added = frozenset(decl for cls in ir.all_classes(module) for decl in _added(project, cls))
    if _starts_others(project, module, imported):
        names |= _MAKERS | {python.STARTS}
    found = led_to(module, names)
    return Relevant(found, added, of_others=True) if added or not found.isdisjoint(used) else None


def _added(project: Project, cls: ir.ClassDecl) -> Iterator[ir.FunctionDecl]:
    """Methods of a class that one of another file, which it inherits, runs, or that use such a one.

    ``def move(self, batch): ...`` of a class derived from ``Loader``, whose ``preload`` calls it on a stream.
    """
    bases = [base for base in project.ancestors(cls)[0] if base.module != cls.module]
    leaving = [decl for base in bases for decl in base.methods.values() if _leaves(project, decl)]
    run = frozenset[str]().union(*(decl.members for decl in leaving))
    names = {decl.name for decl in leaving}
    yield from (
        decl for name, decl in cls.methods.items() if name in run or not names.isdisjoint(decl.members)
    )


def _parts(
    project: Project, used: frozenset[str], bound: str, value: Value
) -> Iterator[tuple[str, FuncV | ClassV]]:
    """The functions and classes that code with these names gets by an import, as it calls them."""
    match value:
        case FuncV(function=ir.FunctionDecl()) | ClassV():
            yield bound, value
        case ModuleV(name):
            of = project.module(name)
            own = of.functions.keys() | of.classes.keys() if of is not None else frozenset[str]()
            handed_on = {one.name for one in of.imports} if of is not None else set[str]()
            for part in used & (own | handed_on):
                match project.member(name, part):
                    case (FuncV(function=ir.FunctionDecl()) | ClassV()) as member:
                        yield part, member
                    case _:
                        pass
        case _:
            pass


def _leaves_itself(project: Project, value: FuncV | ClassV) -> bool:
    """Whether a call leaves work under way: of a function, or of a class, also by ``with`` and the like."""
    match value:
        case FuncV(function=ir.FunctionDecl() as decl):
            return _leaves(project, decl)
        case ClassV(cls):
            methods = classes.methods(project, cls)
            return any(name.startswith("__") and _leaves(project, methods[name]) for name in methods)
        case _:
            return False


def _asked(project: Project, value: FuncV | ClassV) -> frozenset[str]:
    """The methods that leave work under way, of a class or of what a function gives objects of."""
    match value:
        case FuncV(function=ir.FunctionDecl() as decl):
            made = _given_by(project, decl)
        case ClassV(cls):
            made = frozenset({cls})
        case _:
            made = frozenset()
    return frozenset(
        name
        for cls in made
        for name, decl in classes.methods(project, cls).items()
        if not name.startswith("__") and _leaves(project, decl)
    )


def _members(value: FuncV | ClassV) -> frozenset[str]:
    """What a function, or the methods of a class, may ask of objects.

    ``Report(HostMirror(3))``, and in a third file ``self.mirror.push(row)``.
    """
    match value:
        case FuncV(function=ir.FunctionDecl() as decl):
            return decl.members
        case ClassV(cls):
            return frozenset().union(*(decl.members - decl.own for decl in cls.methods.values()))
        case _:
            return frozenset()


def _given_by(project: Project, decl: ir.FunctionDecl) -> frozenset[ir.ClassDecl]:
    """The classes of which a function gives objects, by itself or through others.

    ``def build(): return Engine()``, ``return KINDS[name](model)`` where the module has a table of classes,
    or ``slots.append(Slot(host))``, and then ``return slots``.
    """

    def find() -> frozenset[ir.ClassDecl]:
        made, seen = set[ir.ClassDecl](), set[tuple[str, str]]()
        waiting = [(decl.module, name) for name in _sources(project, decl)]
        while waiting:
            here = waiting.pop()
            if here in seen:
                continue
            seen.add(here)
            match project.member(*here):
                case ClassV(cls):
                    made.add(cls)
                case FuncV(function=ir.FunctionDecl() as other):
                    waiting += [(other.module, name) for name in _sources(project, other)]
                case _:
                    waiting += [(here[0], name) for name in _values(project, *here)]
        return frozenset(made)

    return project.once(_GIVEN_BY, decl, find)


def _sources(project: Project, decl: ir.FunctionDecl) -> Iterator[str]:
    """Names of what a function returns; of a variable of its own, all that it calls."""
    module = project.module(decl.module)
    known = module.assigned | module.functions.keys() if module is not None else frozenset[str]()
    for name, sources in decl.given:
        for source in sources if not name else ():
            bare = source.removesuffix("()")
            yield bare
            if bare == source and bare not in known:
                yield from decl.called


def _values(project: Project, module: str, variable: str) -> Iterator[str]:
    """Names of what a variable of a module gets where the module is run."""
    of = project.module(module)
    for name, sources in of.body_given if of is not None else ():
        if name == variable:
            yield from (source.removesuffix("()") for source in sources)


def _leaves(project: Project, decl: ir.FunctionDecl) -> bool:
    """Whether a function may begin what goes on when it is done, or another of its module or class does."""
    return project.once(_LEAVES, decl, lambda: _may_leave(project, decl))


def _may_leave(project: Project, decl: ir.FunctionDecl) -> bool:
    """Looks at what a function runs of its module and class, and at what that runs of another one."""
    own = _run_in_module(project, decl)
    far = (other for one in own for name in one.used for other in _run_of_others(project, one, name))
    return any(_begins(project, one) for one in own) or any(
        _begins(project, each) for other in far for each in _run_in_module(project, other)
    )


def _run_in_module(project: Project, decl: ir.FunctionDecl) -> frozenset[ir.FunctionDecl]:
    """A function, with those of its module and class that it may run, also through each other."""
    return project.once(_RUN, decl, lambda: _reached(project, decl))


def _reached(project: Project, decl: ir.FunctionDecl) -> frozenset[ir.FunctionDecl]:
    module = project.module(decl.module)
    if module is None:
        return frozenset({decl})
    owners = project.once(_OWNERS, module.name, lambda: _owners(module))
    owner = owners.get(decl)
    bodies = module.functions if owner is None else {**module.functions, **owner.methods}
    # What a thread runs is named, not called: Thread(target=self._fill).
    reached, waiting = set[ir.FunctionDecl](), [decl]
    while waiting:
        here = waiting.pop()
        if here not in reached:
            reached.add(here)
            waiting += [bodies[name] for name in here.used & bodies.keys()]
    return frozenset(reached)


def _owners(module: ir.Module) -> dict[ir.FunctionDecl, ir.ClassDecl]:
    return {decl: cls for cls in ir.all_classes(module) for decl in cls.methods.values()}


def _run_of_others(project: Project, decl: ir.FunctionDecl, name: str) -> Iterator[ir.FunctionDecl]:
    """What a function runs of another module, or of a class: a function, or the constructor of an object."""
    match project.member(decl.module, name):
        case FuncV(function=ir.FunctionDecl() as function) if function.module != decl.module:
            yield function
        case ClassV(cls):
            yield from (one for one in classes.methods(project, cls).values() if one.name == "__init__")
        case _:
            pass


def _begins(project: Project, decl: ir.FunctionDecl) -> bool:
    module = project.module(decl.module)
    if module is None:
        return False
    used = (decl.used - decl.keywords) | (decl.text_names & vocabulary.FLAGS)
    enters = not decl.entered.isdisjoint(touching.holders(project, module))
    # from config import *: with what that imports
    stars = (project.source(module, one.module) for one in module.imports if one.attribute == "*")
    others = [project.module(name) for name in stars]
    roots = module.roots.union(*(other.roots for other in others if other is not None))
    return enters or vocabulary.begins(roots, used)


def _starts_others(project: Project, module: ir.Module, imported: list[tuple[str, Value]]) -> bool:
    """Whether a module starts threads, and imports code that works on streams."""
    called = frozenset().union(module.body_names, *(decl.called for decl in ir.all_functions(module)))
    if not _MAKERS.isdisjoint(called):
        return any(_touches(project, value) for _, value in imported)
    # As of ``uploader = Uploader(jobs)``, and then ``uploader.start()``.
    return python.STARTS in called and any(
        isinstance(value, ClassV) and classes.is_thread(project, value.decl) and _touches(project, value)
        for _, value in imported
    )


def _imported(project: Project, module: ir.Module) -> Iterator[tuple[str, Value]]:
    """What a module imports, at its top and in its functions, with the names it has there."""
    yield from ((one.name, project.imported(one)) for one in module.imports)
    for name, taken in sorted({each for decl in ir.all_functions(module) for each in decl.imports}, key=repr):
        source = project.source(module, name)
        whole = taken in (None, "*")
        yield taken or name, project.path(source if whole else f"{source}.{taken}".lstrip("."))


def _touches(project: Project, value: Value) -> bool:
    match value:
        case FuncV(function=function):
            return isinstance(function, ir.FunctionDecl) and touching.by_others(project, function)
        case ClassV(decl):
            return any(touching.touches(project, one) for one in decl.methods.values())
        case ModuleV(name):
            module = project.module(name)
            return module is not None and any(
                touching.touches(project, one) for one in ir.all_functions(module)
            )
        case _:
            return False
