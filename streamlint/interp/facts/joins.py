"""What other functions of a module wait for, by their text: who calls one may well call them too."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import process_targets, scopes, text_order, touching
from streamlint.interp.state.kept import Kept
from streamlint.models import python, torch, vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from streamlint.interp.state.project import Project
    from streamlint.interp.state.scope import Scope, Target

ALL_STREAMS = "*"
"""Among names of streams: whichever there are."""
_CHOOSES = vocabulary.ENTERS_STREAM | vocabulary.CAPTURES
_BY_OWNERS: Kept[ir.ClassDecl, frozenset[str]] = Kept()
_BY_MAKERS: Kept[ir.ClassDecl, frozenset[str]] = Kept()


def orders(module: ir.Module, names: frozenset[str]) -> bool:
    """Whether code with these names may make a stream or the host wait."""
    return not vocabulary.known_to(module.roots, vocabulary.ORDERS).isdisjoint(names)


def reads(decl: ir.FunctionDecl) -> bool:
    """Whether a function may ask a tensor for its values, for which the host waits: ``ids.tolist()``."""
    return not torch.HOST_READ_METHODS.isdisjoint(decl.called)


def waits(module: ir.Module, names: frozenset[str]) -> bool:
    """Whether it may do so, and does not only ask: ``event.query()``."""
    return not vocabulary.known_to(module.roots, vocabulary.ORDERS - vocabulary.POLLS).isdisjoint(names)


def chooses_streams(module: ir.Module, names: frozenset[str]) -> bool:
    """Whether code with these names makes another stream current, or captures."""
    return not vocabulary.known_to(module.roots, _CHOOSES).isdisjoint(names)


def orders_for_others(
    module: ir.Module, decl: ir.FunctionDecl, methods: Mapping[str, ir.FunctionDecl]
) -> bool:
    """Whether a method orders streams, and may be called between two calls of others.

    It may do so by others of its object: what ``next(self.source)`` and ``self.source.step()`` do is not
    what its own class has by that name. Nor is what another process runs.
    """
    names = frozenset().union(*(_of_calls(one) for one in _steps_of(decl, methods)))
    return orders(module, names) and not _gives_up_stream(decl, methods)


def _of_calls(decl: ir.FunctionDecl) -> frozenset[str]:
    """The names of a function that may be what it calls, or hands on to be called: ``stream.synchronize``.

    ``query`` of ``def score(self, query, key)`` is none, nor ``done`` of ``self.done = torch.cuda.Event()``.
    """
    return decl.used - decl.keywords - (decl.own - decl.called)


def _steps_of(decl: ir.FunctionDecl, methods: Mapping[str, ir.FunctionDecl]) -> set[ir.FunctionDecl]:
    """A method, and those of its object that it uses, also by others of them."""
    found, waiting = {decl}, [decl]
    while waiting:
        last = waiting.pop()
        names = last.own & methods.keys() - process_targets.started_by(last)
        more = {methods[name] for name in names} - found
        found |= more
        waiting += more
    return found


def _gives_up_stream(decl: ir.FunctionDecl, methods: Mapping[str, ir.FunctionDecl]) -> bool:
    """Whether a method takes the object a stream that only its constructor makes.

    ``def close(self): torch.cuda.synchronize(); self.stream = None``: what would the next call work on?
    """
    steps = (methods[name] for name in decl.called & decl.own & methods.keys())
    gone = {name for one in (decl, *steps) for name in one.stored & one.own - dict(one.given).keys()}
    constructor = methods.get("__init__")
    if constructor is None or not gone:
        return False
    gone -= {name for one in methods.values() if one is not constructor for name, _ in one.given}
    return any(name in gone and any(map(_makes_stream, sources)) for name, sources in constructor.given)


def _makes_stream(source: str) -> bool:
    return source.endswith("()") and source[:-2].rpartition(".")[2] in vocabulary.MAKES_STREAM


def orders_state_of(module: ir.Module, own: ir.FunctionDecl) -> frozenset[str]:
    """Functions that order streams and use a variable of the module which ``own`` uses too.

    Who calls ``send()`` twice may well call ``flush()`` in between.
    """
    variables = module.assigned & own.names
    return frozenset(
        decl.name
        for decl in ir.all_functions(module)
        if decl is not own and orders(module, decl.names) and not variables.isdisjoint(decl.names)
    )


@lru_cache(maxsize=4)
def _waiting_names(module: ir.Module) -> dict[str, Counter[str]]:
    """How many functions that wait for streams and enter none use a name of what others can get at.

    That is an attribute or a variable of the module, and no local variable. What a class gives its objects
    itself counts for that class: ``self.stream`` is another one in each.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    decorated = _decorated(module)
    for decl in ir.all_functions(module):
        if only_waits(module, decl):
            names = _within_reach(module, decl)
            for cls in decorated.get(decl.name) or (_class_of(module, decl),):
                own = names & _given_by(cls) if cls is not None else frozenset()
                if decl.name != "__init__":
                    # What a constructor waits for is what it has begun itself.
                    counts[cls.qualname if cls is not None else ""].update(own)
                counts[""].update(names - own)
    return counts


def _decorated(module: ir.Module) -> dict[str, set[ir.ClassDecl]]:
    """The classes of the methods that a function of the module decorates: it is about their objects."""
    found: dict[str, set[ir.ClassDecl]] = defaultdict(set)
    for cls in ir.all_classes(module):
        for decl in cls.methods.values():
            for decorator in module.functions.keys() & set(decl.decorators):
                found[decorator].add(cls)
    return found


def _class_of(module: ir.Module, decl: ir.FunctionDecl) -> ir.ClassDecl | None:
    return next((cls for cls in ir.all_classes(module) if cls.methods.get(decl.name) is decl), None)


def _given_by(cls: ir.ClassDecl) -> frozenset[str]:
    """The attributes of the object that methods of a class assign."""
    return frozenset(name for decl in cls.methods.values() for name, _ in decl.given if name in decl.own)


def _within_reach(module: ir.Module, decl: ir.FunctionDecl) -> frozenset[str]:
    """Attributes, and variables and functions of the module: ``side_stream()`` gives others the same one."""
    called = decl.called & module.functions.keys()
    names = decl.names.union(*(module.functions[name].names for name in called))
    return decl.members | called | (names & module.assigned)


def only_waits(module: ir.Module, decl: ir.FunctionDecl) -> bool:
    """Whether a function waits for streams, and enters none."""
    return orders(module, decl.names) and vocabulary.ENTERS_STREAM.isdisjoint(decl.called)


def forked_by(module: ir.Module, decls: Iterable[ir.FunctionDecl]) -> frozenset[str]:
    """The names of streams that functions make wait and give no work: they do so for what others queue.

    ``def __enter__(self): self.side.wait_stream(torch.cuda.current_stream())``: who then calls ``add(x)``,
    which copies on ``side``, has ordered that. Also by a step, or what it holds: ``self.fork.begin()``.
    Where a block begins with a wait of the host, all that was queued before is complete.
    """
    found: set[str] = set()
    for decl in decls:
        whole = _with_steps(module, decl)
        if all(vocabulary.ENTERS_STREAM.isdisjoint(one.called) for one in whole):
            found = found.union(*map(text_order.only_made_to_wait, whole))
            if decl.name in python.BEGINS_BLOCK and any(map(text_order.stops_the_host, whole)):
                found.add(ALL_STREAMS)
    return frozenset(found)


def _with_steps(module: ir.Module, decl: ir.FunctionDecl) -> list[ir.FunctionDecl]:
    """A method, and those of its class that it calls; of what another object does, what has its name."""
    waiting, seen = [decl], {decl}
    while waiting:
        one = waiting.pop()
        own = _class_of(module, one)
        for cls in ir.all_classes(module):
            of_own = cls is own
            called = one.called & (one.own if of_own else one.members - one.own) & cls.methods.keys()
            more = {cls.methods[name] for name in called} - seen
            seen |= more
            waiting += more
    return sorted(seen, key=lambda one: one.span.line)


def by_owners(project: Project, cls: ir.ClassDecl) -> frozenset[str]:
    """The parameters of a constructor for which code passes what it waits for elsewhere, by its name.

    ``self.groups = [Group(layer, self.side) for layer in layers]``, and in another method of that class
    ``torch.cuda.current_stream().wait_stream(self.side)``: between two calls of a group its owner may wait.
    """
    return project.once(_BY_OWNERS, cls, lambda: _by_owners(project, cls))


def _by_owners(project: Project, cls: ir.ClassDecl) -> frozenset[str]:
    target = scopes.constructor_of(project, cls)
    return frozenset(
        name
        for scope, call in scopes.calls_of(project, target)
        for name in target.positional()
        if _is_waited_for(scope, scopes.argument_of(call, name, target.positional()))
    )


def known_to_makers(project: Project, cls: ir.ClassDecl) -> frozenset[str]:
    """Streams of a class that those know who make its objects: they may wait for such a one.

    ``step = Step(cell)``, and in another module ``HostSink(step.stream)``; or ``Packer(wire, self.side)`` of
    a class that makes a stream for itself where it gets none.
    """
    return project.once(_BY_MAKERS, cls, lambda: _by_makers(project, cls))


def _by_makers(project: Project, cls: ir.ClassDecl) -> frozenset[str]:
    methods = [decl for one in project.ancestors(cls)[0] for decl in one.methods.values()]
    streams = {name for decl in methods for name, sources in decl.given if any(map(_makes_stream, sources))}
    if not streams:
        return frozenset()
    target = scopes.constructor_of(project, cls)
    elsewhere = scopes.calls_elsewhere(project, target)
    makers = {decl for scope, _ in elsewhere for decl in _beside(scope)}
    # torch.cuda.stream(lane) names no attribute of an object, self.stream none of another one.
    named = set[str]().union(*(decl.members - decl.called - decl.own for decl in makers))
    calls = [call for _, call in (*scopes.calls_of(project, target), *elsewhere)]
    passed = set(_passed_by_name(target, calls))
    given = target.function.given if target.function is not None else ()
    taken = {name: passed & sources for name, sources in given if name in streams}
    return frozenset(
        streams & (named | {name for name in taken if taken[name]}) | set[str]().union(*taken.values())
    )


def _beside(scope: Scope) -> Iterable[ir.FunctionDecl]:
    """The function in which something stands, with the other methods of its object."""
    if scope.cls is not None:
        return scope.cls.methods.values()
    return [decl for decl in ir.all_functions(scope.module) if decl.qualname == scope.function.qualname]


def _passed_by_name(target: Target, calls: Sequence[ir.Call]) -> Iterator[str]:
    """The parameters for which some call passes what it has a name for: ``self.stream``, not ``Stream()``."""
    positional = target.positional()
    for param in target.params():
        given = (scopes.argument_of(call, param.name, positional) for call in calls)
        if any(isinstance(one, (ir.Name, ir.Attr)) for one in given):
            yield param.name


def _is_waited_for(scope: Scope, given: ir.Expr | None) -> bool:
    """Whether other functions wait for what stands in a function, by its name."""
    names = _waiting_names(scope.module)
    match given:
        case ir.Attr(value=ir.Name(id=owner), name=name) if owner == scope.receiver and scope.cls is not None:
            return name in names.get(scope.cls.qualname, {})
        case ir.Attr(name=name) | ir.Name(id=name):
            return name in names.get("", {})
        case _:
            return False


def joined(project: Project, module: ir.Module, *own: ir.FunctionDecl) -> frozenset[str]:
    """All names in other functions of the module that wait for streams and enter none."""
    counts = _waiting_names(module)
    own_classes = [cls for decl in own if (cls := _class_of(module, decl)) is not None]
    kin = {one.qualname for cls in own_classes for one in project.ancestors(cls)[0]}
    mine = Counter(name for decl in own if only_waits(module, decl) for name in _within_reach(module, decl))
    found = {name for of in ("", *kin) for name, count in counts.get(of, {}).items() if count > mine[name]}
    if not found:
        return frozenset()
    # side = self.pool._side: a stream is named after the variable.
    own_touching = [decl for decl in own if touching.touches(project, decl)]
    libraries = {one.name for one in module.imports if one.module.partition(".")[0] in vocabulary.ROOTS}
    return frozenset(found.union(*(text_order.variables(decl, found, libraries) for decl in own_touching)))
