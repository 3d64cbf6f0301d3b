"""What code has put into unknown objects, found again: see ``interp/state/stored.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.interp.state.values import BufferV, HeapV, Shape, TupleV, Value
from streamlint.trace import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


def memory_in(m: Machine, symbol: Symbol) -> list[BufferV]:
    """The memory that code has made and put into an unknown object."""
    return [
        view
        for place, value in m.roles.items()
        if isinstance(value, (BufferV, TupleV, HeapV)) and _is_in(place, symbol)
        for view in own_memory(m, value)
    ]


def _is_in(place: Symbol, symbol: Symbol) -> bool:
    while isinstance(place, (symbols.Attr, symbols.Item)):
        place = place.of
        if place is symbol:
            return True
    return False


def own_memory(m: Machine, value: Value, depth: int = 3) -> Iterator[BufferV]:
    """The memory of the code's own that something is, or holds: ``out.rows = [x.cpu() for x in rows]``."""
    match value:
        case BufferV(number) if m.buffers[number].origin is not Origin.ARGUMENT:
            yield value
        case TupleV(items) if depth:
            for item in items:
                yield from own_memory(m, item, depth - 1)
        case HeapV(number) if depth and m.heap[number].shape is not Shape.INSTANCE:
            held = m.heap[number]
            sample = [held.sample] if held.open and held.sample is not None else []
            for item in (*held.items, *held.named, *held.extra.values(), *sample):
                yield from own_memory(m, item, depth - 1)
        case _:
            pass


def at(m: Machine, place: symbols.Item) -> Value | None:
    """What code has put at a place, or at each: a loop over the keys of a dict has come by all of them.

    While it runs it has not: ``for name, value in state.items(): state[name] = offload(value)`` finds at the
    second name what was there before, which is of the same kind as what was at the first.
    """
    found = m.roles.get(place)
    if found is not None:
        return found
    first = symbols.Item(place.of, symbols.Item(place.of, symbols.constant(0)))
    if place is first:
        return None
    if m.stores.is_walked(first):
        _ask_alike(m, first, place)
        return None
    # for done in page.events.values(): done.synchronize(), of events that others put there: each is another.
    return m.roles.get(first) if first in m.stores.by else None


def _ask_alike(m: Machine, first: symbols.Item, place: symbols.Item) -> None:
    """What the path took one thing to be, another is too: ``isinstance(state[name], torch.Tensor)``."""
    for key, answer in tuple(m.oracle.memo.items()):
        match key:
            case symbols.Call(func, (asked, *options)) if asked is first:
                m.oracle.answer(symbols.Call(func, (place, *options)), answer)
            case _:
                pass
