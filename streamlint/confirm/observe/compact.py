"""What is kept of events that were judged: the rest of a long program needs little of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.confirm.observe.events import Birth, Block, Death, Entry, Point, Work
from streamlint.trace import CudaCall, DestroyEvent, EventId, Record, StreamId, SyncEvent, Wait

if TYPE_CHECKING:
    from collections.abc import Iterable


def compact(entries: list[Entry]) -> list[Entry]:
    """What later events can still meet of events that were judged with all that came before.

    Nothing touches a dead block again. Only its memory may be handed out while a stream that does not
    own it still uses it.
    """
    kept: list[Entry] = []
    awaited: set[Block] = set()
    bare: StreamId | None = None
    for entry in entries:
        if type(entry) is Work:
            stream = entry.stream
            left = [touch for touch in entry.touches if touch[0].alive or touch[0].stream != stream]
            if left:
                awaited.update([touch[0] for touch in left])
            if left or bare != stream:
                entry.touches = left
                kept.append(entry)
            bare = stream
        elif type(entry) is Birth:
            if entry.block.alive:
                kept.append(entry)
        elif type(entry) is Death:
            if entry.block in awaited:
                kept.append(entry)
        else:
            kept.append(entry)
            bare = None
    return kept


def mentioned(entries: Iterable[Entry]) -> set[EventId]:
    """The events that entries are about."""
    points = [entry for entry in entries if isinstance(entry, Point)]
    return {
        point.op.event for point in points if isinstance(point.op, (Record, Wait, SyncEvent, DestroyEvent))
    } | {event for point in points if isinstance(point.op, CudaCall) for event in point.op.times}
