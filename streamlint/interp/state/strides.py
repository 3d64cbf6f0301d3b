"""Loops that go on by an unknown number: ``for at in range(0, len(x), chunk): use(x[at : at + chunk])``.

Pass ``k`` begins at ``k`` times the number, which is where the pass before it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.interp.state.values import ConstV, SymV, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


def begin(m: Machine, stride: Symbol, turn: int) -> Value:
    """Where a pass begins, of a loop that begins at 0."""
    m.numbers.strides.add(stride)
    return _place(stride, turn)


def computed(m: Machine, op: str, left: Value, right: Value) -> Value | None:
    """``at + chunk``, where the next pass begins, and ``at // chunk``, the number of the pass."""
    match right:
        case SymV(stride) if op in ("+", "//") and stride in m.numbers.strides:
            many = _strides(left, stride)
        case _:
            return None
    if many is None:
        return None
    return ConstV(many) if op == "//" else _place(stride, many + 1)


def nearest(m: Machine, ends: Sequence[Value]) -> Value | None:
    """``min(at + chunk, len(x))``: where all passes end but the last, which ends before."""
    up_to = any(isinstance(end, SymV) and end.symbol in m.numbers.ends for end in ends)
    for end in ends:
        if any(_strides(end, stride) for stride in m.numbers.strides):
            return end
        if up_to and isinstance(end, ConstV):
            return end
    return None


def _place(stride: Symbol, many: int) -> Value:
    if many == 0:
        return ConstV(0)
    return SymV(stride if many == 1 else symbols.Binary("*", stride, symbols.constant(many)))


def _strides(place: Value, stride: Symbol) -> int | None:
    """How many strides lie before a place; None of one that is told otherwise."""
    match place:
        case ConstV(0):
            return 0
        case SymV(symbol) if symbol is stride:
            return 1
        case SymV(symbols.Binary("*", of, symbols.Const(_, int() as many))) if of is stride:
            return many
        case _:
            return None
