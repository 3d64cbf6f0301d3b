"""What is kept of events that were judged: the rest of a long program needs little of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.confirm.observe.events import Birth, Block, Death, Entry, Point, Work
from streamlint.trace import CudaCall, DestroyEvent, EventId, Record, StreamId, SyncEvent, Wait

if TYPE_CHECKING:
    from collections.abc import Iterable


def compact(entries: list[Entry], alive: dict[int, Block]) -> list[Entry]:
    """What later events can still meet of events that were judged with all that came before.

    Nothing touches a dead block again. Only its memory may be handed out while a stream that does not
    own it still uses it.
    """
    kept: list[Entry] = []
    awaited: set[Block] = set()
    bare: StreamId | None = None
    for entry in entries:
        match entry:
            case Work(stream=stream):
                entry.touches = [
                    touch
                    for touch in entry.touches
                    if alive.get(touch.block.start) is touch.block or touch.block.stream != stream
                ]
                awaited.update(touch.block for touch in entry.touches)
                if entry.touches or bare != stream:
                    kept.append(entry)
                bare = stream
            case Birth(block=block):
                if alive.get(block.start) is block:
                    kept.append(entry)
            case Death(block=block):
                if block in awaited:
                    kept.append(entry)
            case _:
                kept.append(entry)
                bare = None
    return kept


def mentioned(entries: Iterable[Entry]) -> set[EventId]:
    """The events that entries are about."""
    points = [entry for entry in entries if isinstance(entry, Point)]
    return {
        point.op.event for point in points if isinstance(point.op, (Record, Wait, SyncEvent, DestroyEvent))
    } | {event for point in points if isinstance(point.op, CudaCall) for event in point.op.times}
