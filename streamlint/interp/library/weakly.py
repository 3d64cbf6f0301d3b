"""Weak references: they lead to a thing as long as something else holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state.values import NONE, BufferV, SymV, Value
from streamlint.trace import Free

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def referring(m: Machine, value: Value, span: Span) -> SymV:
    """``held = weakref.ref(x)``"""
    made = m.result("weakref.ref", span)
    m.life.weak[made.symbol] = value
    return made


def referred(m: Machine, reference: SymV) -> Value:
    """``held()``: the thing, or None once it is gone."""
    value = m.life.weak[reference.symbol]
    is_gone = isinstance(value, BufferV) and any(
        isinstance(op, Free) and op.buffer == value.id for op in m.ops
    )
    return NONE if is_gone else value
