"""Which streams are ordered with each other without any event."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from streamlint.trace import (
    DeviceId,
    Doubt,
    LaneId,
    OpId,
    Stream,
    StreamKind,
)

Doubts: TypeAlias = frozenset[Doubt]
NO_DOUBT: Doubts = frozenset()
SAME: Doubts = frozenset({Doubt.SAME_STREAM})


@dataclass(slots=True)
class Hub:
    """Streams that are each a two-sided barrier among ``spokes``: a hub op comes after all earlier
    ops of the spokes, and later ops of the spokes come after it.

    The members are ordered among each other as well, so ``tail`` stands for all of them, and
    ``dirty`` keeps only the spokes that did something since: an op costs as many edges as streams
    changed, not as many as there are.
    """

    doubts: Doubts
    tail: OpId | None = None
    dirty: dict[int, OpId] = field(default_factory=dict)
    """Last op by chain."""


@dataclass(slots=True)
class Queue:
    """What one stream did so far.

    Allocations and frees of a hub's member stand on a side chain: they come after what an op of
    the stream would come after, but are no barrier themselves.
    """

    chain: int
    stream: Stream
    member_of: tuple[Hub, ...]
    spoke_of: tuple[Hub, ...]
    at: int = 0
    tail: OpId | None = None
    work: OpId | None = None
    """The last op that a synchronize waits for: not an allocation or free."""
    side_chain: int = -1
    side_at: int = 0
    side_tail: OpId | None = None
    pending: dict[LaneId, tuple[OpId, Doubts]] = field(default_factory=dict)
    """Barriers, by their lane, that the next op may have to wait for."""
    begun_after: OpId | None = None
    """What stands for its first work, done where a container was filled: see ``Stream.made_like``."""


class Hubs:
    """The hubs of a trace: per device the legacy stream and the stream current at entry, one of all streams
    from outside, and one for each stream of an object that unseen code may have given to several others.
    """

    def __init__(self) -> None:
        self._legacy: dict[DeviceId, Hub] = {}
        self._current: dict[DeviceId, Hub] = {}
        self._outside = Hub(SAME)
        self._handed_on: dict[str, Hub] = {}

    def roles(self, stream: Stream) -> tuple[tuple[Hub, ...], tuple[Hub, ...]]:
        """The hubs that ``stream`` is a member of, and those it is a spoke of."""
        members, spokes = self._by_kind(stream)
        if not stream.part_of:
            return members, spokes
        shared = self._handed_on.setdefault(stream.part_of, Hub(SAME))
        return ((*members, shared), spokes) if stream.handed_on else (members, (*spokes, shared))

    def _by_kind(self, stream: Stream) -> tuple[tuple[Hub, ...], tuple[Hub, ...]]:
        legacy = self._legacy.setdefault(stream.device, Hub(NO_DOUBT))
        current = self._current.setdefault(stream.device, Hub(SAME))
        outside = self._outside
        match kind_of(stream):
            case StreamKind.LEGACY:
                return (legacy,), (current, outside)
            case StreamKind.BLOCKING | StreamKind.PER_THREAD:
                return (), (legacy, current, outside)
            case StreamKind.NON_BLOCKING:
                entered = (current,) if stream.may_be_current else ()
                if stream.may_be_given:
                    return (outside,), entered
                return (), (entered if made_here(stream) else (*entered, outside))
            case StreamKind.CURRENT:
                return (current,), (outside,)
            case StreamKind.UNKNOWN:
                return (outside,), ()


def kind_of(stream: Stream) -> StreamKind:
    """The kind of a stream, as far as that orders it with others."""
    return StreamKind.LEGACY if stream.of_program else stream.kind


def made_here(stream: Stream) -> bool:
    """Whether code at hand creates the stream, so that it cannot be one from outside.

    What an object has that unseen code passes can: who passes a second one, or a stream, may have got that
    from the first.
    """
    return stream.span is not None and stream.passed is None


def queue_key(stream: Stream, lane: LaneId) -> object:
    """Equal for names of one queue: a device has one legacy stream, a thread one per-thread stream."""
    match kind := kind_of(stream):
        case StreamKind.LEGACY:
            return (kind, stream.device)
        case StreamKind.PER_THREAD:
            return (kind, stream.device, lane)
        case StreamKind.BLOCKING | StreamKind.NON_BLOCKING | StreamKind.CURRENT | StreamKind.UNKNOWN:
            return stream.id


def may_cover(synced: Stream, other: Stream) -> Doubts | None:
    """Whether synchronizing ``synced`` waits for the work of another stream too.

    ``None``: no. Otherwise yes, under the doubts returned. A synchronize of the legacy stream
    waits for the blocking streams; one of a blocking stream does *not* wait for the legacy stream.
    """
    if synced.part_of and synced.part_of == other.part_of and (synced.handed_on or other.handed_on):
        return SAME
    first, second = kind_of(synced), kind_of(other)
    kinds = {first, second}
    if StreamKind.CURRENT in kinds and (synced.may_be_current or other.may_be_current):
        return SAME if synced.device == other.device else None
    if StreamKind.UNKNOWN in kinds:
        apart = any(kind_of(s) is StreamKind.NON_BLOCKING and made_here(s) for s in (synced, other))
        return None if apart else SAME
    if synced.device != other.device or StreamKind.NON_BLOCKING in kinds:
        return None
    match first:
        case StreamKind.LEGACY:
            return SAME if second is StreamKind.CURRENT else NO_DOUBT
        case StreamKind.CURRENT:
            return SAME
        case StreamKind.PER_THREAD:
            return SAME if second is StreamKind.CURRENT else None
        case StreamKind.BLOCKING:
            return SAME if second is StreamKind.CURRENT and not made_here(synced) else None
        case StreamKind.NON_BLOCKING | StreamKind.UNKNOWN:
            return None
