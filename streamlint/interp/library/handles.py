"""Objects that a call gives to its unseen caller while what they hold is still under way: handles, futures.

``return Pending(host, done)``: whoever gets it calls its methods when the call is over. It has an event or a
stream: an object that only holds tensors (``batch.to(device, non_blocking=True)``) is a result as any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import escape
from streamlint.interp.state import names, reach, symbols
from streamlint.interp.state.values import HeapV, Shape, TupleV
from streamlint.trace import Copy, HostEffect, Launch, StreamKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import Value
    from streamlint.trace import BufferId


def given(m: Machine, since: int = 0) -> list[HeapV]:
    """Those that calls have handed out, in that order; made after the heap had ``since`` objects."""
    found = dict.fromkeys(
        made for value in (*m.life.outside, *m.life.lent) for made in _objects(m, value, set())
    )
    new = [made for made in found if made.id >= since]
    under_way = _under_way(m) if new else set()
    return [made for made in new if escape.carries_order(m, [made]) and reach.reached(m, [made], under_way)]


def _objects(m: Machine, value: Value, seen: set[int]) -> Iterator[HeapV]:
    """Objects of classes in sight, alone or in containers: ``return [Work(out, done) for ...]``."""
    match names.settle(m, value):
        case TupleV(items):
            for item in items:
                yield from _objects(m, item, seen)
        case HeapV(number) as made if number not in seen:
            seen.add(number)
            held = m.heap[number]
            if held.shape is Shape.INSTANCE:
                # The object whose method was called its caller had before.
                if held.cls is not None and held.symbol != symbols.SELF:
                    yield made
                return
            sample = () if held.sample is None else (held.sample,)
            for item in (*held.items, *held.entries.values(), *held.extra.values(), *sample):
                yield from _objects(m, item, seen)
        case _:
            pass


def _under_way(m: Machine) -> set[BufferId]:
    """Memory that streams of the code's own have used, or copies that the host does not wait for."""
    return {
        access.buffer
        for op in m.ops
        if isinstance(op, (Launch, Copy))
        if (isinstance(op, Copy) and op.host is HostEffect.ASYNC)
        or m.streams[op.stream].kind is not StreamKind.CURRENT
        for access in op.accesses
    }
