"""Dicts that loops of unknown length fill: what their passes put there stands beside others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state.values import ConstV, HeapV, Shape, Value, each_of, symbol_of

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine


def has_more(m: Machine, table: HeapV, at: Value) -> None:
    """``for p in params: host[id(p)] = page(p)``: what its passes put there will stand beside others."""
    held = m.heap[table.id]
    known = isinstance(at, ConstV) or held.shape is not Shape.DICT or (held.open and not held.filled)
    if m.filling is not None and table.id < m.filling.objects and not known:
        m.filled[table.id] = symbol_of(at)


def filled(m: Machine) -> None:
    """A loop of unknown length is over: the dicts that it filled hold more than its passes put there.

    While it runs they hold just that, and what it takes out again it takes out in each pass:
    ``slot = self.loaded.pop(id(p), None)``. What stood for all of them stands for none once it is taken out:
    a slot that ``self.kept.popitem()`` gave is filled again, and has another event then.
    """
    for table, at in m.filled.items():
        held = m.heap[table]
        stands = held.filled and held.sample in held.entries.values()
        if at in held.entries and not stands:
            value = held.entries[at]
            number = isinstance(value, ConstV) and not isinstance(value.value, bool)
            sample = each_of(HeapV(table)) if number else value
            held.open, held.filled, held.sample, held.born = True, True, sample, m.filling
    m.filled.clear()
