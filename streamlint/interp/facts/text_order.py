"""Where the text of a module orders a stream by its name, on paths that may not have been run.

Traces show what was run. A join in a callback, behind a test that no path decided that way, or in a
method that no entry reached is in the text only. It counts against a finding, never for one.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from streamlint import ir
from streamlint.frozen import frozen
from streamlint.interp.facts import kinds, touching
from streamlint.models import vocabulary

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from streamlint.interp.state.project import Project
    from streamlint.source import Span


@frozen()
class _Body:
    """What is asked of a function's text again and again, found in one walk."""

    copies: tuple[tuple[str, ir.Expr], ...] = ()
    """Variables that are given another name's value, or what a call makes of it: ``side = self.side``,
    ``lane = random.choice(self.lanes)``, ``lane = lane_of(device)``."""
    stored: tuple[tuple[str, ir.Expr], ...] = ()
    """Attributes, with what they are given."""
    calls: tuple[ir.Call, ...] = ()
    made: frozenset[str] = frozenset()
    """Variables that are given a stream where it is made: ``side = torch.cuda.Stream()`` ..."""
    attributes: frozenset[str] = frozenset()
    """... and all attributes that it mentions."""

    @classmethod
    def of(cls, body: object) -> _Body:
        copies, stored, calls = [], [], []
        made, attributes = set[str](), set[str]()
        for node in ir.walk(body, functions=True):
            match node:
                case ir.Assign(targets=targets, value=value):
                    names = [target.id for target in targets if isinstance(target, ir.Name)]
                    copies += [(name, source) for name in names for source in _sources(value)]
                    if len(targets) == 1 and isinstance(targets[0], ir.Attr):
                        stored.append((targets[0].name, value))
                    if isinstance(value, ir.Call) and _makes_stream(value):
                        made.update(names)
                case ir.Call():
                    calls.append(node)
                case ir.Attr(name=name):
                    attributes.add(name)
                case _:
                    pass
        return cls(tuple(copies), tuple(stored), tuple(calls), frozenset(made), frozenset(attributes))

    def has_own(self, name: str) -> bool:
        """Whether what it calls by this name is a stream that it makes itself."""
        return name in self.made and name not in self.attributes


def _sources(value: ir.Expr) -> tuple[ir.Expr, ...]:
    match value:
        case ir.Name() | ir.Attr() | ir.Index():
            return (value,)
        case ir.Call() if _makes_stream(value):
            return ()  # torch.cuda, of torch.cuda.Stream()
        case ir.Call(func=ir.Attr(value=owner), args=args):
            return (owner, *(arg.value for arg in args))
        case ir.Call(func=func, args=args):
            # side = side_stream(): what a function gives is called like the function.
            return (func, *(arg.value for arg in args))
        case _:
            return ()


@dataclass(slots=True)
class Text:
    """The text of one module. A function of it is walked once, however many findings ask."""

    module: ir.Module
    _bodies: dict[ir.FunctionDecl, _Body] = field(default_factory=dict)
    _attributes: dict[str, frozenset[str]] = field(default_factory=dict)
    _calls: dict[tuple[str, Span], tuple[_Called, ...]] = field(default_factory=dict)

    def forks(self, name: str, made: Span) -> Iterator[tuple[Span, str]]:
        """Where, and in which function, code makes a stream of this name wait.

        ``made`` is where the stream is made: other classes that make one of that name mean their own.
        """
        for function, call, method, receiver, same in self._calls_about(name, made):
            waits = method in vocabulary.STREAMS_OWN_WAITS and _is(same, receiver)
            if waits or (method in vocabulary.FORKS_ARGUMENT and _among(same, call.args)):
                yield call.span, function

    def joins(self, name: str, made: Span) -> Iterator[tuple[Span, str]]:
        """The same for code that waits for the stream, or records an event on it."""
        for function, call, method, receiver, same in self._calls_about(name, made):
            waits = method in vocabulary.JOINS_OWN and _is(same, receiver)
            if waits or (method in vocabulary.JOINS_ARGUMENT and _among(same, call.args)):
                yield call.span, function

    def attributes(self, name: str) -> frozenset[str]:
        """The name, and those of the attributes that a variable or attribute of it comes from or goes to.

        ``side = self.pool._side``: other functions know the stream as ``_side``.
        """
        if name not in self._attributes:
            names = {name}
            for decl in ir.all_functions(self.module):
                if name in decl.names:
                    body = self._body(decl)
                    names |= {v.name for to, v in body.copies if to == name and isinstance(v, ir.Attr)}
                    names |= {to for to, value in body.stored if _is({name}, value)}
            self._attributes[name] = frozenset(names)
        return self._attributes[name]

    def _calls_about(self, name: str, made: Span) -> tuple[_Called, ...]:
        if (name, made) not in self._calls:
            self._calls[name, made] = tuple(self._find_calls(name, made))
        return self._calls[name, made]

    def _find_calls(self, name: str, made: Span) -> Iterator[_Called]:
        """Calls that may order, in functions that mention the stream."""
        others = _with_own(self.module, name, made)
        names = self.attributes(name)
        for decl in ir.all_functions(self.module):
            if names.isdisjoint(decl.names) or decl.qualname.rpartition(".")[0] in others:
                continue
            body = self._body(decl)
            if body.has_own(name) and not decl.span.has_lines_of(made):
                continue
            same = names | {n for n, value in body.copies if _is(names, value)}
            for call in body.calls:
                match call.func:
                    case ir.Attr(value=receiver, name=method) if method in _ORDERING:
                        yield decl.qualname, call, method, receiver, same
                    case ir.Name(id=method) if method in _ORDERING:
                        yield decl.qualname, call, method, None, same
                    case _:
                        pass

    def _body(self, decl: ir.FunctionDecl) -> _Body:
        if decl not in self._bodies:
            function = ir.code_of(decl)
            self._bodies[decl] = _Body.of(function.body) if function is not None else _Body()
        return self._bodies[decl]


_Called: TypeAlias = "tuple[str, ir.Call, str, ir.Expr | None, frozenset[str]]"
"""A call: the function that makes it, its name, its receiver, and the names of the stream there."""
_ORDERING = (
    vocabulary.STREAMS_OWN_WAITS
    | vocabulary.FORKS_ARGUMENT
    | vocabulary.JOINS_OWN
    | vocabulary.JOINS_ARGUMENT
)


def variables(decl: ir.FunctionDecl, names: Collection[str], libraries: Collection[str]) -> set[str]:
    """The variables of a function that are given the value of something with one of these names.

    ``side = torch.cuda.Stream()`` has nothing of what is called ``cuda`` elsewhere.
    """
    function = ir.code_of(decl)
    body = _Body.of(function.body) if function is not None else _Body()
    return {
        target for target, value in body.copies if _is(names, value) and _begins_with(value) not in libraries
    }


def only_made_to_wait(decl: ir.FunctionDecl) -> frozenset[str]:
    """The names of the streams that a function makes wait, and does nothing else with.

    ``self.side.wait_stream(main)``, ``done.wait(side)``, ``for lane in self.lanes: lane.wait_event(done)``;
    not where it has them work: ``kernel[grid, block, side](x)``, ``copy(x, stream=side)``.
    """
    function = ir.code_of(decl)
    if function is None:
        return frozenset()
    waiting: set[str] = set()
    working: set[str] = set()
    loops: list[ir.For] = []
    for node in ir.walk(function.body, functions=True):
        match node:
            case ir.Call(func=ir.Attr(value=receiver, name=name)) if name in vocabulary.STREAMS_OWN_WAITS:
                waiting |= held_name(receiver)
            case ir.Call(func=ir.Attr(name=name) | ir.Name(id=name), args=args) if name in _ORDERING:
                forked = args if name in vocabulary.FORKS_ARGUMENT else ()
                waiting = waiting.union(*(held_name(arg.value) for arg in forked))
            case ir.Call(func=ir.Attr(value=receiver), args=args):
                working = working.union(held_name(receiver), *(held_name(arg.value) for arg in args))
            case ir.Call(args=args):
                working = working.union(*(held_name(arg.value) for arg in args))
            case ir.With(items=items):
                working = working.union(*(held_name(item.context) for item in items))
            case ir.Index(index=index):
                working = working.union(*map(_last_name, ir.walk(index)))
            case ir.For():
                loops.append(node)
            case _:
                pass
    for loop in loops:
        if not _last_name(loop.target).isdisjoint(waiting):
            waiting = waiting.union(*map(_last_name, ir.walk(loop.iter)))
    copied = (held_name(value) for name, value in _Body.of(function.body).copies if name in waiting)
    return frozenset(waiting.union(*copied) - working)


def stops_the_host(decl: ir.FunctionDecl) -> bool:
    """Whether a method lets the host wait for something else than what its object holds.

    ``torch.cuda.current_stream().synchronize()``, and not ``self.done.synchronize()``.
    """
    function = ir.code_of(decl) if not vocabulary.HOST_WAITS.isdisjoint(decl.called) else None
    if function is None or not function.params:
        return False
    own = function.params[0].name
    return any(
        isinstance(node, ir.Call)
        and isinstance(node.func, ir.Attr)
        and node.func.name in vocabulary.HOST_WAITS
        and _begins_with(node.func.value) != own
        for node in ir.walk(function.body)
    )


def held_name(value: ir.Expr) -> set[str]:
    """The last name of what an expression reads: ``self.lanes[i]`` is one of the ``lanes``."""
    return held_name(value.value) if isinstance(value, ir.Index) else _last_name(value)


def _begins_with(value: ir.Expr) -> str:
    while isinstance(value, (ir.Attr, ir.Index)):
        value = value.value
    return value.id if isinstance(value, ir.Name) else ""


def _with_own(module: ir.Module, name: str, made: Span) -> set[str]:
    """Classes whose constructor mentions the name and makes a stream, but not this one."""
    decls = [decl for decl in ir.all_functions(module) if decl.span.path == made.path]
    maker = max((d for d in decls if d.span.line <= made.line), key=lambda d: d.span.line, default=None)
    return {
        decl.qualname.rpartition(".")[0]
        for decl in decls
        if decl.name == "__init__"
        and name in decl.names
        and touching.makes_streams(decl.used)
        and (maker is None or decl.qualname.rpartition(".")[0] != maker.qualname.rpartition(".")[0])
    }


def may_be_recorded(module: ir.Module, name: str) -> bool:
    """Whether code may record an event of this name: it does more than make it, test it and wait for it."""
    mentions = harmless = 0
    bodies: list[object] = [module.load_body()] if name in module.body_names else []
    for decl in ir.all_functions(module):
        if name in decl.names:
            if (function := ir.code_of(decl)) is None:
                return True
            bodies.append(function.body)
    for node in (node for body in bodies for node in ir.walk(body, functions=True)):
        if isinstance(node, ir.Unread):
            return True
        mentions += isinstance(node, (ir.Name, ir.Attr)) and _is({name}, node)
        harmless += sum(_is({name}, part) for part in _harmless(node))
    return mentions > harmless


def calls(project: Project, module: ir.Module, name: str) -> bool:
    """Whether a module may call a function of this name that is no library's: not ``torch.save(state)``."""
    bodies: list[object] = [module.load_body()] if name in module.body_names else []
    for decl in ir.all_functions(module):
        if name in decl.called:
            if (function := ir.code_of(decl)) is None:
                return True
            bodies.append(function.body)
    return any(
        isinstance(node, ir.Unread)
        or (
            isinstance(node, ir.Call)
            and ir.called(node) == name
            and kinds.dotted(project, module.name, node.func).partition(".")[0] not in _OF_LIBRARIES
        )
        for body in bodies
        for node in ir.walk(body, functions=True)
    )


_OF_LIBRARIES = vocabulary.ROOTS | sys.stdlib_module_names
"""A package that is not known may be the one that is checked, by the name under which it is installed."""


def kept_as(module: ir.Module, maker: str, made: Span) -> str | None:
    """The attribute that something is made for: ``self.done = [torch.cuda.Event() for _ in layers]``.

    A path calls it by the last name that it had: ``last = self.sets[k].done[-1]``.
    """
    for node in _statements(module, maker):
        match node:
            case ir.Assign(targets=(ir.Attr(name=name),), value=value) if any(
                isinstance(part, ir.Call) and part.span == made for part in ir.walk(value)
            ):
                return name
            case _:
                pass
    return None


def takes_others(module: ir.Module, name: str, maker: str) -> bool:
    """Whether code other than its maker puts there what it is passed or has recorded.

    ``def finish(self, event): self.done[:] = [event] * len(self.done)``
    """
    owner = maker.rpartition(".")[0]
    for decl in ir.all_functions(module):
        if name not in decl.names or decl.qualname == maker or (function := ir.code_of(decl)) is None:
            continue
        # What a method of another class puts into its own object is another attribute of that name.
        is_other = decl.qualname.rpartition(".")[0] != owner and bool(function.params)
        own = function.params[0].name if is_other else None
        if _puts_others(function.body, name, own, {param.name for param in function.params[1:]}):
            return True
    return False


def _puts_others(body: object, name: str, own: str | None, others: set[str]) -> bool:
    stored: list[ir.Expr] = []
    for node in ir.walk(body):
        match node:
            case ir.Assign(targets=(ir.Attr() | ir.Index() as target,), value=value) if _is_held(
                target, name, own
            ):
                stored.append(value)
            case ir.Call(func=ir.Attr(value=ir.Name(id=event), name=called)) if called in vocabulary.RECORDS:
                others.add(event)
            case _:
                pass
    parts = (part for value in stored for part in ir.walk(value))
    return any(isinstance(part, ir.Name) and part.id in others for part in parts)


def _statements(module: ir.Module, qualname: str) -> Iterator[object]:
    for decl in ir.all_functions(module):
        if decl.qualname == qualname and (function := ir.code_of(decl)) is not None:
            yield from ir.walk(function.body)


def makes(decl: ir.FunctionDecl, name: str) -> bool:
    """``self.consumed = torch.cuda.Event()``"""
    return any(
        given == name
        and any(source.rpartition(".")[2].removesuffix("()") in vocabulary.MAKES_EVENT for source in sources)
        for given, sources in decl.given
    )


def made_by_class(module: ir.Module, cls: str, names: frozenset[str]) -> frozenset[str]:
    """Names under which a class has events that it makes itself: its ``self.done`` is another one."""
    methods = [decl for decl in ir.all_functions(module) if decl.qualname.rpartition(".")[0] == cls]
    return frozenset(name for name in names if any(makes(decl, name) for decl in methods))


def _is_held(e: ir.Expr, name: str, own: str | None) -> bool:
    """Whether an expression is the attribute of anything but ``own``, or an element of that."""
    match e:
        case ir.Attr(value=ir.Name(id=holder), name=found):
            return found == name and holder != own
        case ir.Attr(name=found):
            return found == name
        case ir.Index(value=inside):
            return _is_held(inside, name, own)
        case _:
            return False


def may_record(decl: ir.FunctionDecl, name: str) -> bool:
    """Whether a function records an event of this name, or any that it has not just made itself."""
    function = ir.code_of(decl)
    if function is None:
        return True
    made: set[str] = set()
    recorded: list[tuple[ir.Expr, ...]] = []
    for node in ir.walk(function.body):
        match node:
            case ir.Assign(targets=(target,), value=ir.Call(func=ir.Attr(name=called))) if (
                called in vocabulary.MAKES_EVENT
            ):
                made |= _last_name(target)
            case ir.Call(func=ir.Attr(name=called) | ir.Name(id=called)) if called in _RECORDS_BY_CALL:
                return True
            case ir.Call(func=ir.Attr(value=event, name=called), args=args) if called in vocabulary.RECORDS:
                recorded.append((event, *(arg.value for arg in args)))
            case _:
                pass
    # self.done = torch.cuda.Event(); self.done.record(): the next wait is for this one.
    made.discard(name)
    return any(made.isdisjoint(set().union(*map(_last_name, of))) for of in recorded)


def _makes_stream(call: ir.Call) -> bool:
    return not vocabulary.MAKES_STREAM.isdisjoint(_last_name(call.func))


def _last_name(e: object) -> set[str]:
    match e:
        case ir.Name(id=name) | ir.Attr(name=name):
            return {name}
        case _:
            return set()


_RECORDS_BY_CALL = vocabulary.RECORDS & vocabulary.JOINS_ARGUMENT - vocabulary.JOINS_OWN
"""``cudaEventRecord(event, stream)``"""
_WAITS_FOR_OWN = vocabulary.ORDERS - vocabulary.RECORDS


def _harmless(node: object) -> tuple[ir.Expr, ...]:
    """Parts of a node that can be an event without its being recorded there."""
    match node:
        case ir.Call(func=ir.Attr(name=called) | ir.Name(id=called), args=args) if (
            args and called in vocabulary.WAITS_FOR_EVENT | vocabulary.POLLS
        ):
            owner = (node.func.value,) if isinstance(node.func, ir.Attr) and called in _WAITS_FOR_OWN else ()
            return (*owner, *(arg.value for arg in args))
        case ir.Call(func=ir.Attr(value=event, name=called)) if called in _WAITS_FOR_OWN:
            return (event,)
        case ir.Assign(targets=targets, value=ir.Call(func=ir.Attr(name=called) | ir.Name(id=called))) if (
            called in vocabulary.MAKES_EVENT
        ):
            return targets
        case ir.Assign(targets=targets, value=ir.Const()) | ir.Delete(targets=targets):
            return targets
        case ir.Compare(left=left, right=right):
            return (left, right)
        case ir.If(test=test) | ir.While(test=test):
            return (test,)
        case _:
            return ()


def _among(names: Collection[str], args: tuple[ir.Arg, ...]) -> bool:
    return any(_is(names, arg.value) for arg in args)


def _is(names: Collection[str], value: ir.Expr | None) -> bool:
    match value:
        case ir.Name(id=found) | ir.Attr(name=found):
            return found in names
        case ir.Index(value=inside):
            return _is(names, inside)
        case _:
            return False
