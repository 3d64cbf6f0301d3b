"""Weak references lead to a thing as long as something else holds it; finalizers run when it goes.

``self._finalizer = weakref.finalize(self, _unpin, array, self.streams)``, where ``close()`` calls
``self._finalizer()``: the function runs once, and may let streams wait or free memory like any other code.
So does ``__del__`` of an object's class: ``self.pool.free.append(self.memory)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import classes
from streamlint.interp.state import last_seen, reach, symbols
from streamlint.interp.state.lives import Finalizer
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ConstV,
    FuncV,
    HeapV,
    PartialV,
    SymV,
    Value,
    symbol_of,
)
from streamlint.trace import Free

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

FINALIZE, ALIVE = "weakref.finalize", "alive"


def referring(m: Machine, value: Value, span: Span) -> SymV:
    """``held = weakref.ref(x)``"""
    made = m.result("weakref.ref", span)
    m.life.weak[made.symbol] = value
    return made


def is_called(m: Machine, value: SymV) -> bool:
    """Whether it is a weak reference or a finalizer, of which a call is known."""
    return value.symbol in m.life.weak or value.symbol in m.life.finalizers


def called(m: Machine, value: SymV, span: Span) -> Value:
    return _referred(m, value) if value.symbol in m.life.weak else _finalized(m, value, span)


def _referred(m: Machine, reference: SymV) -> Value:
    """``held()``: the thing, or None once it is gone."""
    value = m.life.weak[reference.symbol]
    is_gone = isinstance(value, BufferV) and any(
        isinstance(op, Free) and op.buffer == value.id for op in m.ops
    )
    return NONE if is_gone else value


# ----------------------------------------------------------------------------- finalizers


def finalizer(m: Machine, args: list[Value], kwargs: dict[str, Value], span: Span) -> SymV:
    """``self._finalizer = weakref.finalize(self, _unpin, array, self.streams)``"""
    made = m.result(FINALIZE, span)
    of, func, *rest = args
    m.life.finalizers[made.symbol] = Finalizer(of, PartialV(func, tuple(rest), kwargs))
    return made


def made(m: Machine, value: HeapV) -> None:
    """Notes what the class of a new object does when that goes."""
    last = classes.method(m, value, "__del__")
    if last is not None:
        symbol = symbols.call("__del__", symbol_of(value))
        unbound = PartialV(replace(last, receiver=None), (), {})
        m.life.finalizers[symbol] = Finalizer(value, unbound, by_class=True)


def is_finalizer(m: Machine, value: Value) -> bool:
    return isinstance(value, SymV) and value.symbol in m.life.finalizers


def _finalized(m: Machine, finalizer: SymV, span: Span) -> Value:
    """``self._finalizer()``: a second call does nothing."""
    pending = m.life.finalizers[finalizer.symbol]
    m.life.finalizers[finalizer.symbol] = None
    if pending is None:
        return NONE
    func = pending.does.func
    if pending.by_class and isinstance(func, FuncV):
        func = replace(func, receiver=pending.of)
    return m.python.call(m, func, list(pending.does.args), dict(pending.does.kwargs), span)


def method(m: Machine, finalizer: SymV, name: str) -> Value:
    """``self._finalizer.detach()``: it will not run; ``peek()`` and its kin tell of it."""
    if name == "detach":
        m.life.finalizers[finalizer.symbol] = None
    return m.fresh(name)


def is_alive(m: Machine, finalizer: SymV) -> ConstV:
    """``if self._finalizer.alive:``"""
    return ConstV(m.life.finalizers[finalizer.symbol] is not None)


def given_away(m: Machine, args: Sequence[Value]) -> None:
    """Code that is not seen got these and may keep them: when they go is not known."""
    for symbol, pending in m.life.finalizers.items():
        if pending is not None and pending.of in args:
            m.life.finalizers[symbol] = replace(pending, kept=True)


def after_statement(m: Machine, span: Span, since: int = 0) -> None:
    """Runs those of objects that the statement has let go of; of a turn, what that made (``since``)."""
    pending = {
        symbol: one.of
        for symbol, one in m.life.finalizers.items()
        if one is not None and not one.kept and isinstance(one.of, HeapV) and one.of.id >= since
    }
    if not pending or m.constructing:
        return
    m.search()  # also where it is spared
    missing = last_seen.not_there(m, set(pending.values()))
    if not missing:
        return
    gone = reach.unreachable_objects(m, missing)
    last_seen.note(m, missing - gone)
    for symbol in [symbol for symbol, thing in pending.items() if thing in gone]:
        _finalized(m, SymV(symbol), span)
