"""Numbers that stand for each of those that something counts: ``i`` of ``[Lane(i) for i in range(n)]``.

A comprehension over an unknown number of elements makes the first one, which stands for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.interp.state.replacing import replaced
from streamlint.interp.state.values import ConstV, HeapObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


def at(m: Machine, each: Symbol, turn: int) -> int | None:
    """The number that a counter has at a turn; None of what counts nothing, or from an unknown number."""
    match _counts(m, each):
        case HeapObject(role="range", items=[ConstV(int() as start), ConstV(int() as step), _]):
            return start + step * turn
        case HeapObject(role="enumerate", items=[ConstV(int() as start), _]):
            return start + turn
        case _:
            return None


def first(m: Machine, symbol: Symbol) -> Symbol:
    """What is computed of counters, as the first element has it: ``cuda:0`` for ``f"cuda:{i}"``."""
    for each in dict.fromkeys(those_in(symbol)):
        number = at(m, each, 0)
        if number is not None:
            symbol = replaced(symbol, each, symbols.constant(number))
    return symbol


def those_in(symbol: Symbol) -> Iterator[symbols.Item]:
    """What stands for each of something in a symbol."""
    if not symbols.has(symbol, symbols.Each):
        return
    match symbol:
        case symbols.Item(_, symbols.Each()):
            yield symbol
        case _:
            for part in symbols.parts(symbol):
                yield from those_in(part)


def _counts(m: Machine, each: Symbol) -> HeapObject | None:
    match each:
        case symbols.Item(symbols.Thing("object", int() as number), _):
            return m.heap.get(number)
        case _:
            return None
