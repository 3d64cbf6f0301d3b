"""What code has put into unknown objects, found again: see ``interp/state/stored.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import elements, symbols
from streamlint.interp.state.values import (
    BufferV,
    ConstV,
    Flavor,
    HeapV,
    Shape,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models import torch as model
from streamlint.trace import BufferId, Copy, Launch, Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.trace import Op


def memory_in(m: Machine, symbol: Symbol) -> list[BufferV]:
    """The memory that code has made and put into an unknown object."""
    return [
        view
        for place, value in m.roles.items()
        if isinstance(value, (BufferV, TupleV, HeapV)) and is_in(place, symbol)
        for view in own_memory(m, value)
    ]


def before(m: Machine, at: Symbol) -> Symbol:
    """What an argument was before a call showed that it may be memory: ``params[1]``."""
    return m.given.get(BufferId(at.number), at) if isinstance(at, symbols.Memory) and not at.region else at


def is_put_back(m: Machine, holder: BufferV, at: Value, value: Value) -> bool:
    """Whether a copy of an element takes its place: a row of a tensor would be as it was, so it is a list.

    ``page.copy_(packed[0], non_blocking=True)``, then ``packed[0] = page``, and then
    ``packed[0] = packed[0].cuda()``, of what unseen code gave.
    """
    if holder.flavor is not Flavor.OPAQUE or holder.region or not isinstance(value, BufferV):
        return False
    if not isinstance(at, ConstV) or not isinstance(at.value, int):
        return False
    if holder.id in m.put_back:
        return True
    made = next((op for op in reversed(m.ops) if _writes(op, value)), None)
    element = holder.id, elements.selected(m, holder, at)
    return isinstance(made, Copy) and (made.src.buffer, made.src.region) == element


def _writes(op: Op, view: BufferV) -> bool:
    return isinstance(op, (Launch, Copy)) and any(
        access.buffer == view.id and access.mode.writes for access in op.accesses
    )


def put_back(m: Machine, holder: BufferV, at: Value) -> Value | None:
    """What took the place of an element of a list that unseen code gave."""
    if holder.id not in m.put_back or holder.region:
        return None
    return m.roles.get(symbols.Item(before(m, symbol_of(holder)), symbol_of(at)))


def with_put_back(m: Machine, view: BufferV) -> list[BufferV]:
    """What unseen code gave, and what took the place of its elements."""
    if view.id not in m.put_back or view.region:
        return [view]
    return [view, *memory_in(m, before(m, symbol_of(view)))]


def is_in(place: Symbol, whole: Symbol) -> bool:
    """Whether something is in another: ``layer.gate.weight``, and what a module lists that is in ``layer``.

    ``for part in layer.modules(): part.weight = page``
    """
    above = _held_by(place)
    while above is not None and above is not whole:
        above = _held_by(above)
    return above is not None


def _held_by(part: Symbol) -> Symbol | None:
    match part:
        case symbols.Attr(of) | symbols.Item(of):
            return of
        case _:
            return listing_module(part)


def listing_module(listing: Symbol) -> Symbol | None:
    """``net`` of ``net.modules()``; None of what lists no modules."""
    match listing:
        case symbols.Fresh(symbols.Call(symbols.Attr(of, name), _)) if name in model.MODULE_TREE:
            return of
        case _:
            return None


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
