"""A list that is parted at an unknown number: what ``pool[:n]`` has, ``pool[n:]`` has not.

By itself each of the two may have any element of the list. Where a path makes both, the number is taken to be
a small one: ``taken, self.pages = self.pages[:n], self.pages[n:]`` takes two pages, and the others are left.
So does ``taken = self.pages[:n]`` with ``del self.pages[:n]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import elements, symbols
from streamlint.interp.state.values import NONE, ConstV, HeapV, SliceV, SymV, Value

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine

TAKEN = 2
"""Elements that stand for any number of them, as passes do."""


def note(m: Machine, whole: HeapV, at: SliceV, made: HeapV) -> None:
    """``pool[:n]`` of a list that has a known length was made."""
    if isinstance(at.hi, SymV) and at.lo in (None, NONE, ConstV(0)) and at.step in (None, NONE):
        m.numbers.halves[whole.id, at.hi.symbol] = made.id


def left(m: Machine, whole: HeapV, at: SliceV) -> list[Value] | None:
    """The elements that ``del pool[:n]`` leaves; None if that is not known."""
    held = m.heap[whole.id]
    if held.open:
        return None
    cut = elements.places(at)
    if cut is None:
        return rest(m, whole, SliceV(at.hi, None, None)) if at.lo in (None, NONE, ConstV(0)) else None
    kept = list(held.items)
    del kept[cut]
    return kept


def rest(m: Machine, whole: HeapV, at: SliceV) -> list[Value] | None:
    """The elements of ``pool[n:]``, where the path has made ``pool[:n]`` and not changed it."""
    held = m.heap[whole.id]
    if not isinstance(at.lo, SymV) or at.hi not in (None, NONE) or at.step not in (None, NONE):
        return None
    number = at.lo.symbol
    made = m.numbers.halves.get((whole.id, number))
    first = m.heap[made] if made is not None else None
    if first is None or held.open or len(held.items) <= TAKEN or first.items != held.items:
        return None
    told = f"{symbols.text_of(number)} is {TAKEN}"
    m.oracle.choose(symbols.call("parted", number), told, options=1)
    first.items, first.open, first.sample = held.items[:TAKEN], False, None
    return held.items[TAKEN:]
