"""Weak references lead to a thing as long as something else holds it; finalizers run when it goes.

``self._finalizer = weakref.finalize(self, _unpin, array, self.streams)``, where ``close()`` calls
``self._finalizer()``: the function runs once, and may let streams wait or free memory like any other code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.state import reach
from streamlint.interp.state.lives import Finalizer
from streamlint.interp.state.values import NONE, BufferV, ConstV, HeapV, PartialV, SymV, Value
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


def is_finalizer(m: Machine, value: Value) -> bool:
    return isinstance(value, SymV) and value.symbol in m.life.finalizers


def _finalized(m: Machine, finalizer: SymV, span: Span) -> Value:
    """``self._finalizer()``: a second call does nothing."""
    pending = m.life.finalizers[finalizer.symbol]
    m.life.finalizers[finalizer.symbol] = None
    if pending is None:
        return NONE
    return m.python.call(m, pending.does.func, list(pending.does.args), dict(pending.does.kwargs), span)


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


def after_statement(m: Machine, span: Span) -> None:
    """Runs those of objects that the statement has let go of."""
    pending = {
        symbol: one.of.id
        for symbol, one in m.life.finalizers.items()
        if one is not None and not one.kept and isinstance(one.of, HeapV)
    }
    if not pending or m.constructing:
        return
    gone = reach.unreachable_objects(m, set(pending.values()))
    for symbol in [symbol for symbol, number in pending.items() if number in gone]:
        _finalized(m, SymV(symbol), span)
