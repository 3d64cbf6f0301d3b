"""What those passes of a loop of unknown length may wait for that are not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.library import escape
from streamlint.interp.python import some_element
from streamlint.interp.state import symbols
from streamlint.interp.state.values import EventV, HeapV, Shape, StreamV, TupleV
from streamlint.trace import Doubt, Record, SyncEvent, SyncStream, Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import HeapObject, Value
    from streamlint.source import Span
    from streamlint.trace import EventId, StreamId

_OF_BUDGET = frozenset({Doubt.BUDGET})
_FEWEST = 2
"""Passes that each waited for the next element before others are taken to go on like that."""


def may_wait(m: Machine, begin: int, passes: int, span: Span) -> None:
    """A loop has made its ``passes``, with the operations from ``begin`` on."""
    waits = [op for op in m.ops[begin:] if isinstance(op, (SyncStream, SyncEvent, Wait))]
    if waits:
        _for_other_keys(m, waits, span)
        _for_further_numbers(m, waits, passes, span)


def _for_other_keys(m: Machine, waits: list[SyncStream | SyncEvent | Wait], span: Span) -> None:
    """They may wait for other streams and events of those that the passes chose from.

    ``for d in self.devices: self.streams[d].synchronize()``, which may come by ``self.streams[x.device.id]``.
    """
    waited = {op.stream for op in waits if isinstance(op, SyncStream)}
    awaited = {op.event for op in waits if not isinstance(op, SyncStream)}
    streams: set[StreamId] = set()
    events: set[EventId] = set()
    for held in m.heap.values():
        inside = some_element.things_in(held)
        chosen = [key for key, one in inside if one.id in (waited if isinstance(one, StreamV) else awaited)]
        if any(symbols.number(key) is None for key in chosen):
            streams |= {one.id for _, one in inside if isinstance(one, StreamV)} - waited
            events |= {one.id for _, one in inside if isinstance(one, EventV)} - awaited
    streams |= {op.stream for op in m.ops if isinstance(op, Record) and op.event in events}
    escape.barrier(m, map(StreamV, sorted(streams)), span, "passes left out", Doubt.BUDGET)


def _for_further_numbers(
    m: Machine, waits: list[SyncStream | SyncEvent | Wait], passes: int, span: Span
) -> None:
    """Where each pass has waited for the next event of a list, they may wait for those behind.

    ``for i, layer in enumerate(layers): request.loaded[i].wait()``, of which another loop, which counts the
    layers in its own way, has recorded one more.
    """
    last = {op.event: op for op in waits if not isinstance(op, SyncStream)}
    if passes < _FEWEST or len(last) < _FEWEST:
        return
    recorded = {op.event for op in m.ops if isinstance(op, Record)}
    for held in list(m.heap.values()):
        for row in _rows(m, held):
            done = [event for number, event in row.items() if number < passes and event in last]
            if len(done) < passes:
                continue
            model = last[row[passes - 1]]
            for number, event in row.items():
                if number >= passes and event in recorded and event not in last:
                    m.emit(replace(model, at=m.site(span), event=event, doubts=model.doubts | _OF_BUDGET))


def _rows(m: Machine, held: HeapObject) -> Iterator[dict[int, EventId]]:
    """The events of a list by their numbers; of a list of objects or tuples, those at one place of each."""
    if held.shape is not Shape.LIST or held.role:
        return
    rows: dict[str, dict[int, EventId]] = {}
    numbered = ((at, item) for key, item in held.extra.items() if (at := symbols.number(key)) is not None)
    for number, item in (*enumerate(held.items), *numbered):
        for place, part in _parts(m, item):
            if isinstance(part, EventV):
                rows.setdefault(place, {})[number] = part.id
    yield from rows.values()


def _parts(m: Machine, item: Value) -> Iterator[tuple[str, Value]]:
    match item:
        case HeapV(number) if m.heap[number].shape is Shape.INSTANCE:
            yield from m.heap[number].attrs.items()
        case TupleV(items):
            yield from ((str(at), part) for at, part in enumerate(items))
        case _:
            yield "", item
