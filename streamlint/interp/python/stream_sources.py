"""Which stream or event an expression in a function that is not running stands for.

Callers that are too large to be followed still say what they pass: ``Layer(alt_stream=self.side)`` with
``self.side = torch.cuda.Stream()``. Names are followed to what is assigned to them, attributes to what a
method of the class assigns to them, and parameters to what the calls in the module pass, until something
makes a stream or an event. Nothing is run but that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.facts import blocks, classes, modules, scopes, touching, writes
from streamlint.interp.python import containers
from streamlint.interp.state import arguments, naming, symbols
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.decisions import Oracle
from streamlint.interp.state.ends import PathEnds
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.scope import Scope, Target
from streamlint.interp.state.values import (
    ClassV,
    ConstV,
    ContextV,
    EventV,
    FuncV,
    HeapV,
    Shape,
    SliceV,
    StreamV,
    SymV,
    TupleV,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span

MOST_STEPS = Most(10, "where a stream comes from")
"""Names, attributes and calls that are followed from an expression to what makes the stream."""

MOST_ATTEMPTS = Most(4, "where a stream comes from")
"""Paths tried through the code that makes a stream."""


# ----------------------------------------------------------------------------- arguments


def of_symbol(m: Machine, symbol: Symbol) -> StreamV | EventV | None:
    """The stream or event that an unknown value is, if other code of the module shows it.

    That is what a caller passes as an argument, what another method puts into an attribute, or what is in it.
    """
    taken: list[symbols.Attr | symbols.Item] = []
    whole = symbol
    while (value := _origin(m, whole)) is None:
        if not isinstance(whole, (symbols.Attr, symbols.Item)):
            return None
        taken.append(whole)
        whole = whole.of
    for part in reversed(taken):
        found = _part(m, value, part)
        if found is None:
            return None
        value = found
    if isinstance(value, ContextV):
        value = value.value
    if not isinstance(value, (StreamV, EventV)):
        return None
    mark_used(m, value)
    naming.keep(m, value, symbol)
    return value


def element(m: Machine, owner: ir.ClassDecl | ir.Module, name: str) -> Value | None:
    """An element that some code puts into a container, an attribute of a class or a variable of a module.

    ``self.done.append((event, batch))``, ``STREAMS[device] = torch.cuda.Stream()``
    """
    put = scopes.put_into(m.project, owner).get(name)
    if put is None:
        return None

    def find() -> Value | None:
        return next((v for scope, e in put if (v := _value(m, scope, e)) is not None), None)

    where = owner.name if isinstance(owner, ir.Module) else f"{owner.module}:{owner.qualname}"
    value = _once(m, f"element of {name} of {where}", find)
    if value is not None:
        mark_used(m, value)
    return value


def mark_used(m: Machine, value: Value | None) -> None:
    """Notes that other code could use a value before the entry: it may have recorded the events in it."""
    match value:
        case EventV(number):
            m.events[number] = replace(m.events[number], earlier=True)
        case TupleV(items):
            for item in items:
                mark_used(m, item)
        case HeapV(number) if m.heap[number].cls is None:
            for item in (*m.heap[number].items, *m.heap[number].named):
                mark_used(m, item)
        case _:
            pass


def _origin(m: Machine, symbol: Symbol) -> Value | None:
    """What is made for an argument or an attribute; None for anything else."""
    given = arguments.passed(symbol)
    target = m.targets.get(given.call) if given is not None and given.is_argument else None
    if given is not None and target is not None:
        return _passed(m, target, given.name) or _of_annotated_class(m, target, given.name)
    owner = m.owners.get(symbol)
    return _attribute(m, *owner) if owner is not None else None


def _of_annotated_class(m: Machine, target: Target, param: str) -> Value | None:
    """``ring: Ring`` or ``ring: Ring | None``: some object of a class of the tree."""

    def find() -> Value | None:
        for known in target.params():
            if known.name == param:
                cls = scopes.class_named_by(m.project, target.module, known.annotation)
                return classes.new(m, cls) if cls is not None else None
        return None

    return _once(m, f"annotation of {param} of {target.called.module}:{target.called.qualname}", find)


def _part(m: Machine, value: Value, part: symbols.Attr | symbols.Item) -> Value | None:
    """``.name``, ``[-1]``, or a slice: ``[:3]``; None for an element that is not known."""
    span = next(frame.statement for frame in reversed(m.frames) if frame.statement is not None)
    if isinstance(part, symbols.Attr):
        found = m.python.attribute(m, value, part.name, span)
        cls = m.heap[value.id].cls if isinstance(value, HeapV) else None
        if not isinstance(found, SymV) or cls is None:
            return found
        # Ring(stream=torch.cuda.Stream()), where Ring is a dataclass
        made = _attribute(m, cls, part.name) or _passed(m, Target(None, cls), part.name)
        return made if made is not None else found
    index = _index(part.at)
    return containers.index(m, value, index, span) if index is not None else None


def _index(at: Symbol) -> Value | None:
    match at:
        case symbols.Const(_, int() as number):
            return ConstV(number)
        case symbols.Slice(symbols.Const(_, int()) | None, symbols.Const(_, int()) | None, None):
            lo, hi = (_index(bound) if bound is not None else None for bound in (at.lo, at.hi))
            return SliceV(lo, hi, None)
        case _:
            return None


def _passed(m: Machine, target: Target, param: str, steps: int = MOST_STEPS.number) -> Value | None:
    """What the calls in the module of a function or class pass for a parameter, if that is known."""

    def find() -> Value | None:
        fields = classes.dataclass_fields(m, target.cls) if target.cls and not target.function else None
        for scope, call in scopes.calls_of(m.project, target):
            e = scopes.argument_of(call, param, fields or target.positional())
            value = _value(m, scope, e, steps) if e is not None else None
            if value is None or e is None:
                continue
            if isinstance(value, StreamV) and blocks.surround(
                scope.function, call, e, also_later=target.cls is not None
            ):
                known = m.streams[value.id]
                m.streams[value.id] = replace(known, may_be_current=True, current_at_caller=True)
            return value
        return None

    return _once(m, f"argument {param} of {target.called.module}:{target.called.qualname}", find)


_UNKNOWN = SymV(symbols.Name("what is not known"))


def _once(m: Machine, what: str, find: Callable[[], Value | None]) -> Value | None:
    """The same stream each time, and None while it is being looked for."""
    place = ("origin", what)
    if place not in m.globals:
        m.globals[place] = _UNKNOWN
        m.globals[place] = find() or _UNKNOWN
    value = m.globals[place]
    return None if isinstance(value, SymV) else value


# ----------------------------------------------------------------------------- expressions


def _value(m: Machine, scope: Scope, e: ir.Expr, steps: int = MOST_STEPS.number) -> Value | None:
    """The stream or event that an expression stands for, or a container of some; None if that is not seen."""
    if steps <= 0:
        m.project.budgets.cut(MOST_STEPS)
        return None
    match e:
        case ir.Name(id=name):
            return _name(m, scope, name, steps - 1)
        case ir.Choice(body=body, orelse=orelse):
            return _value(m, scope, body, steps) or _value(m, scope, orelse, steps)
        case ir.Boolean(operands=operands):
            return next((v for one in operands if (v := _value(m, scope, one, steps)) is not None), None)
        case ir.Seq(items=items) if e.kind != "set":
            values = [_value(m, scope, item, steps) for item in items]
            if all(value is None for value in values):
                return None
            at = e.span
            displayed = symbols.Fresh(symbols.Name(scope.name), at.path, at.line, at.col, 0, 0, 0)
            unknown = [SymV(symbols.Item(displayed, symbols.constant(i))) for i in range(len(values))]
            known = [value if value is not None else unknown[i] for i, value in enumerate(values)]
            return TupleV(tuple(known)) if e.kind == "tuple" else m.new_list(known)
        case ir.Attr(value=ir.Name(id=owner), name=name) if owner == scope.receiver and scope.cls is not None:
            return _attribute(m, scope.cls, name, steps - 1)
        case ir.Call(func=ir.Attr(value=ir.Name(id=owner), name=name)) if (
            owner == scope.receiver and scope.cls is not None
        ):
            return _returned(m, scope.cls, name, steps - 1) or _made(m, scope, e)
        case ir.Call() | ir.Comprehension():
            return _made(m, scope, e)
        case ir.Index(value=container, index=at) if _is_plain(at):
            whole = _value(m, scope, container, steps)
            where = modules.at_module_level(m, scope.module, at) if whole is not None else None
            found = (
                containers.index(m, whole, where, e.span) if whole is not None and where is not None else None
            )
            return found if found is not None and _holds_order(m, found) else None
        case _:
            return None


def _is_plain(e: ir.Expr) -> bool:
    """Numbers and slices of numbers."""
    return all(not isinstance(node, (ir.Name, ir.Call, ir.Attr, ir.Opaque)) for node in ir.walk(e))


def _name(m: Machine, scope: Scope, name: str, steps: int) -> Value | None:
    for written in writes.to_name(m.project, scope, name):
        value = _value(m, scope, written, steps)
        if value is not None:
            return value
    target = scopes.target_of(scope)
    if target is not None and any(param.name == name for param in scope.function.params):
        return _passed(m, target, name, steps)
    if name not in scope.module.assigned:
        return None
    value = m.python.module_name(m, scope.module.name, name)
    return value if _holds_order(m, value) else None


def _attribute(m: Machine, cls: ir.ClassDecl, name: str, steps: int = MOST_STEPS.number) -> Value | None:
    """What a method of a class puts into an attribute of its object."""

    def find() -> Value | None:
        for ancestor in m.project.ancestors(cls)[0]:
            module = m.project.module(ancestor.module)
            for decl in ancestor.methods.values() if module is not None else ():
                found = _set_in(m, module, ancestor, decl, name, steps)
                if found is not None:
                    return found
        return _returned(m, cls, name, steps)

    return _once(m, f"attribute {name} of {cls.module}:{cls.qualname}", find)


def given_by_others(m: Machine, cls: ir.ClassDecl, name: str) -> Value | None:
    """The stream or event that another module puts into an attribute which the class itself leaves ``None``.

    ``for group in groups: group.communication_stream = torch.cuda.Stream()``
    """

    def find() -> Value | None:
        for other in m.project.mentioning(name):
            module = m.project.module(other) if other != cls.module else None
            for scope, e in scopes.put_on_others(m.project, module, name) if module is not None else ():
                value = _value(m, scope, e)
                if value is not None:
                    return value
        return None

    value = _once(m, f"what others put into {name} of {cls.module}:{cls.qualname}", find)
    mark_used(m, value)
    return value


def _returned(m: Machine, cls: ir.ClassDecl, name: str, steps: int) -> Value | None:
    """What a method or a property gives back: ``self.side()`` with ``return self._side``."""
    for ancestor in m.project.ancestors(cls)[0]:
        decl, module = ancestor.methods.get(name), m.project.module(ancestor.module)
        if decl is None or module is None:
            continue
        scope = scopes.scope_of(module, decl, ancestor)
        if scope is None:
            return None
        for returned in writes.of_function(m.project, scope.function).returned:
            found = _value(m, scope, returned, steps)
            if found is not None:
                return found
        return None
    return None


def _set_in(
    m: Machine, module: ir.Module | None, cls: ir.ClassDecl, decl: ir.FunctionDecl, name: str, steps: int
) -> Value | None:
    if module is None or name not in decl.stored:
        return None
    scope = scopes.scope_of(module, decl, cls)
    if scope is None:
        return None
    for written in writes.on_receiver(m.project, scope, name):
        found = _value(m, scope, written, steps)
        if found is not None:
            return found
    return None


def _made(m: Machine, scope: Scope, e: ir.Call | ir.Comprehension) -> Value | None:
    """What a call gives that makes a stream or an event, the same each time: it is made once before all."""

    def find() -> Value | None:
        local: dict[str, Value] = {
            name: SymV(symbols.Local(scope.name, name)) for name in scopes.local_names(scope.function)
        }
        waiting: list[tuple[int, ...]] = [()]
        attempt = 0
        while waiting and m.project.budgets.allows(MOST_ATTEMPTS, attempt + 1):
            oracle = Oracle(waiting.pop(0))
            value = _evaluated(m, scope, e, local, oracle)
            if value is not None and _holds_order(m, value):
                return value
            chosen = tuple(decision.chosen for decision in oracle.taken)
            if not attempt:
                # return None, nullcontext() on another path
                waiting += [(*chosen[:at], 1 - choice) for at, choice in enumerate(chosen)]
            attempt += 1
        return None

    return _once(m, f"{e.span.path}:{e.span.line}:{e.span.col}", find) if _may_make(m, scope, e) else None


def _evaluated(m: Machine, scope: Scope, e: ir.Expr, local: dict[str, Value], oracle: Oracle) -> Value | None:
    """What the expression gives, however deep the call is in which it is asked for."""
    calls, m.calls = m.calls, []
    outer, m.oracle = m.oracle, oracle
    first = len(m.ops)
    try:
        return modules.at_module_level(m, scope.module, e, local)
    except PathEnds:
        return None
    finally:
        m.calls, m.oracle = calls, outer
        # It happened long before: what else it did orders nothing here.
        m.forget_ops(first)


_MAKES: Kept[Span, bool] = Kept()


def _may_make(m: Machine, scope: Scope, e: ir.Call | ir.Comprehension) -> bool:
    """Whether it makes a stream or an event, as far as its text tells: asked on every path."""
    return m.project.once(_MAKES, e.span, lambda: _makes(m, scope, e))


def _makes(m: Machine, scope: Scope, e: ir.Call | ir.Comprehension) -> bool:
    """A call of a maker (``torch.cuda.Stream()``), or of a function of the tree that gets constants only."""
    if any(
        isinstance(node, ir.Call) and isinstance(node.func, ir.Attr) and node.func.name in touching.MAKES
        for node in ir.walk(e)
    ):
        return True
    match e:
        case ir.Call(func=ir.Name(id=name), args=args):
            constant = all(isinstance(argument.value, ir.Const) for argument in args)
            match m.project.member(scope.module.name, name):
                case FuncV(function=ir.FunctionDecl(names=used)):
                    return constant or touching.makes_streams(used)
                case ClassV(decl):
                    return _makes_streams(decl)
                case _:
                    return False
        case _:
            return False


def _makes_streams(cls: ir.ClassDecl) -> bool:
    return any(touching.makes_streams(decl.used) for decl in cls.methods.values())


def _holds_order(m: Machine, value: Value) -> bool:
    match value:
        case StreamV() | EventV() | ContextV(value=StreamV()):
            return True
        case TupleV(items):
            return any(_holds_order(m, item) for item in items)
        case HeapV(number) if m.heap[number].cls is not None:
            cls = m.heap[number].cls
            return cls is not None and _makes_streams(cls)
        case HeapV(number) if m.heap[number].shape is not Shape.INSTANCE:
            held = m.heap[number]
            inside = (*held.items, *held.named, *((held.sample,) if held.sample else ()))
            return any(_holds_order(m, item) for item in inside)
        case _:
            return False
