"""What is kept of events that were judged: the rest of a long program needs little of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.confirm.observe.events import Block, Entry, Half, Point, Work
from streamlint.trace import CudaCall, DestroyEvent, EventId, Record, StreamId, SyncEvent, Wait

if TYPE_CHECKING:
    from collections.abc import Iterable


def compact(half: Half) -> Half:
    """What later events can still meet of events that were judged with all that came before.

    Nothing touches a dead block again. Only its memory may be handed out while a stream that does not
    own it still uses it.
    """
    kept: list[Entry] = []
    places: list[int] = []
    awaited: set[Block] = set()
    bare: StreamId | None = None
    for entry in half.entries:
        places.append(len(kept))
        if type(entry) is Work:
            stream, touches = entry.stream, entry.touches
            dead = [touch[0] for touch in touches if not touch[0].alive]
            if dead:
                awaited.update([block for block in dead if block.stream != stream])
                left = [touch for touch in touches if touch[0].alive or touch[0].stream != stream]
                if left or bare != stream:
                    kept.append(Work(entry.place, stream, entry.name, left, entry.completes))
            elif touches or bare != stream:
                kept.append(entry)
            bare = stream
        else:
            kept.append(entry)
            bare = None
    places.append(len(kept))
    lives = [
        (places[at], block, born)
        for at, block, born in half.lives
        if (block.alive if born else block in awaited)
    ]
    return Half(half.before, kept, lives)


def mentioned(entries: Iterable[Entry]) -> set[EventId]:
    """The events that entries are about."""
    points = [entry for entry in entries if type(entry) is Point]
    return {
        point.op.event for point in points if isinstance(point.op, (Record, Wait, SyncEvent, DestroyEvent))
    } | {event for point in points if isinstance(point.op, CudaCall) for event in point.op.times}
