"""Objects of classes of the tree that unseen code passes: made when code first uses a member of them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from streamlint.interp.facts import classes, given_classes
from streamlint.interp.python import instances, unseen_caller
from streamlint.interp.state import naming, symbols
from streamlint.interp.state.ends import PathEnds, Returned
from streamlint.interp.state.values import NONE, EventV, FuncV, HeapV, StreamV, SymV, Value
from streamlint.models.schema import Lib

if TYPE_CHECKING:
    from streamlint import ir
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol

_FIRST_NUMBER = 1000
"""Arguments of the constructors of such objects are numbered apart from those of outside calls."""


def settled(m: Machine, value: Value, *used: str) -> Value:
    """An unknown argument as the object that it is, if the tree shows its class.

    ``def report(meter: Meter): meter.pull()``. It was made, and used, long before. What only its use shows is
    a decision of the path. ``used`` are the members that the code may be about to call.
    """
    match value:
        case SymV(symbols.Param(call, name, rest=False) as symbol):
            target = m.targets.get(call)
        case _:
            return value
    given = given_classes.of_parameter(m.project, target, name) if target is not None else None
    if given is None or _is_being_made(m, given.cls):
        return value
    if not given.orders and not (given.shown and _does_work_aside(m, given.cls, symbol, used)):
        return value
    asked, told = symbols.call("class of", symbol), f"`isinstance({name}, {given.cls.name})`"
    if not given.shown and m.oracle.choose(asked, told, relevant=False):
        return value
    made = _made(m, given.cls, symbol)
    m.roles[symbol] = made
    return made


def _does_work_aside(m: Machine, cls: ir.ClassDecl, symbol: Symbol, used: tuple[str, ...]) -> bool:
    """Whether a method is called on a second stream, or captured: what it reads and writes there matters.

    ``with torch.cuda.stream(self.prefetch_stream): self.table.populate(batch)``. Not if the path has decided
    about the object before, of which the one that is made now knows nothing.
    """
    if not any(isinstance(classes.lookup(m, cls, name), FuncV) for name in used):
        return False
    if any(symbols.contains(asked, symbol) for asked in m.oracle.memo):
        return False
    here = (m.streams[m.current_stream(lib).id] for lib in (Lib.TORCH, Lib.CUPY))
    return not all(stream.is_default for stream in here)


def _place(cls: ir.ClassDecl) -> tuple[str, str]:
    return ("being made", f"{cls.module}:{cls.qualname}")


def _is_being_made(m: Machine, cls: ir.ClassDecl) -> bool:
    return _place(cls) in m.globals


def _made(m: Machine, cls: ir.ClassDecl, symbol: Symbol) -> HeapV:
    """An object as other code has made and used it: what its constructor queued is complete."""
    made = classes.new(m, cls)
    m.heap[made.id].symbol = symbol
    m.globals[_place(cls)] = NONE
    outer, constructing, m.constructing = m.calls, m.constructing, True
    m.calls = []
    first = len(m.ops)
    try:  # also where the path is cut in the constructor: the functions around it end as they began
        with suppress(PathEnds, Returned):
            args, kwargs = unseen_caller.constructor_arguments(m, cls, _FIRST_NUMBER + len(m.targets))
            instances.initialize(m, made, cls, args, kwargs, cls.span)
    finally:
        m.calls, m.constructing = outer, constructing
        del m.globals[_place(cls)]
    m.forget_ops(first)
    _was_used(m, made, cls, symbol)
    return made


def _was_used(m: Machine, made: HeapV, cls: ir.ClassDecl, symbol: Symbol) -> None:
    """Other methods may have been called before; its streams and events are known to who passes it."""
    order, _ = m.project.ancestors(cls)
    names = {
        name
        for one in order
        for decl in one.methods.values()
        if decl.name != "__init__"
        for name in decl.names
    }
    unseen_caller.after_other_calls(m, made, frozenset(names), symbol)
    for name, value in m.heap[made.id].attrs.items():
        if isinstance(value, (StreamV, EventV)):
            naming.keep(m, value, symbols.Attr(symbol, name))
