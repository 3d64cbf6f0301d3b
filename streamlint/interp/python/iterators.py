"""Iterators that are stepped by hand: ``next(itertools.cycle(slots))``, ``next(itertools.count())``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.python import containers
from streamlint.interp.state import elements
from streamlint.interp.state.ends import PathEnds
from streamlint.interp.state.values import ConstV, HeapObject, HeapV, Value

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

CYCLE, COUNT, ITER = "cycle", "count", "iter"
_POSITION, _SOURCE = "position", "source"


def cycle(m: Machine, source: Value) -> HeapV:
    return _endless(m, CYCLE, [source])


def count(m: Machine, start: Value, step: Value) -> HeapV:
    return _endless(m, COUNT, [start, step])


def _endless(m: Machine, kind: str, items: list[Value]) -> HeapV:
    made = containers.lazy(m, kind, items)
    m.heap[made.id].attrs[_POSITION] = ConstV(0)
    return made


def over(m: Machine, source: Value, items: list[Value]) -> HeapV:
    """``iter(slots)``: the elements that are left; the others live until it has come to their end."""
    made = m.new_list(items)
    m.heap[made.id].role = ITER
    m.heap[made.id].attrs[_SOURCE] = source
    return made


def is_iterator(held: HeapObject) -> bool:
    return held.role == ITER or (held.role in (CYCLE, COUNT) and _POSITION in held.attrs)


def position(m: Machine, held: HeapObject) -> int:
    """Where an iterator is: one that goes in circles is at its start again after a round."""
    turn = _turn(held)
    match held:
        case HeapObject(role="iter", items=left):
            return len(left)
        case HeapObject(role="cycle", items=[source]):
            around = elements.listed(m, source)
            return turn % len(around) if around else 0
        case _:
            return turn


def _turn(held: HeapObject) -> int:
    match held.attrs.get(_POSITION):
        case ConstV(int() as turn):
            return turn
        case _:
            return 0


def step(m: Machine, held: HeapObject, default: Value | None, span: Span) -> Value:
    """``next(iterator)``, ``next(iterator, default)``"""
    if held.role != ITER:
        turn = _turn(held)
        held.attrs[_POSITION] = ConstV(turn + 1)
        return containers.around(m, held, turn, span)
    if held.items:
        return held.items.pop(0)
    held.attrs.pop(_SOURCE, None)
    if default is None:
        # StopIteration
        raise PathEnds
    return default
