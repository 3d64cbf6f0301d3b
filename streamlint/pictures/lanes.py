"""The lanes of a picture: the host, its threads and functions, and the streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from typing_extensions import assert_never

from streamlint.pictures import words
from streamlint.pictures.model import Lane
from streamlint.trace import (
    CURRENT_DEVICE,
    MAIN_LANE,
    Alloc,
    Barrier,
    BeginCapture,
    Callback,
    CallbackEnd,
    Copy,
    CudaCall,
    DestroyEvent,
    DestroyStream,
    EndCapture,
    Free,
    HandOff,
    HostAccess,
    HostSignal,
    HostWait,
    Join,
    KeepAlive,
    LaneId,
    Launch,
    Record,
    Spawn,
    StreamId,
    StreamKind,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.rules.base import Judged
    from streamlint.trace import Op

Key: TypeAlias = tuple[int, LaneId]
"""A stream and the thread that issues to it, as two threads are in no order; of the host ``NO_STREAM``."""

NO_STREAM: Final = -1

_KINDS = {
    StreamKind.LEGACY: "default stream (legacy)",
    StreamKind.PER_THREAD: "default stream of the thread",
    StreamKind.BLOCKING: "blocking stream",
    StreamKind.NON_BLOCKING: "non-blocking stream",
    StreamKind.CURRENT: "the one that callers selected",
    StreamKind.UNKNOWN: "stream from outside",
}


def key_of(op: Op) -> Key:
    """The lane in which an operation stands; sorted, the host comes first."""
    stream = stream_at(op)
    return (NO_STREAM if stream is None else stream, op.lane)


def is_thread(judged: Judged, key: Key) -> bool:
    """Whether it is a thread of the host, and no function of it that a stream runs."""
    return key[0] == NO_STREAM and key[1] not in judged.index.bodies


def lane_of(judged: Judged, op: Op) -> Lane:
    """Where an operation runs."""
    key = key_of(op)
    return lane(judged, key, (key,))


def lane(judged: Judged, key: Key, beside: Sequence[Key]) -> Lane:
    """What stands above a lane: what tells it from those beside it."""
    number, issuer = key
    if number == NO_STREAM:
        return _thread(judged, issuer)
    stream = judged.trace.streams[StreamId(number)]
    kinds = [_KINDS[stream.kind]]
    if len({judged.trace.streams[each].device for each in _streams(beside)}) > 1:
        device = stream.made_on or stream.device
        kinds.append("the current device" if device == CURRENT_DEVICE else words.device_name(device))
    if any(each == number and other != issuer for each, other in beside):
        kinds.append(f"used by {_thread(judged, issuer).name}")
    name = words.stream_name(judged, stream.id)
    alike = [each for each in _streams(beside) if words.stream_name(judged, each) == name]
    if len(alike) > 1:  # for branch in branches: ...
        kinds.append(f"{alike.index(stream.id) + 1} of {len(alike)} of this name")
    return Lane(name, ", ".join(kinds))


def _streams(keys: Sequence[Key]) -> list[StreamId]:
    return sorted({StreamId(number) for number, _ in keys if number != NO_STREAM})


def _thread(judged: Judged, number: LaneId) -> Lane:
    stream = judged.index.bodies.get(number)
    if stream is not None:
        return Lane("a function of the host", f"queued on {words.stream_name(judged, stream)}")
    return Lane("the host", "") if number == MAIN_LANE else Lane(f"thread {number}", "of the host")


def stream_at(op: Op) -> StreamId | None:
    """The stream on which the op takes its turn; ``None`` for what the host does itself."""
    match op:
        case Launch() | Copy() | Record() | Wait() | Callback() | CallbackEnd():
            return op.stream
        case BeginCapture() | EndCapture() | Alloc() | Free():
            return op.stream
        case HostAccess() | SyncEvent() | SyncStream() | SyncDevice() | Barrier():
            return None
        case KeepAlive() | HandOff() | Spawn() | Join() | HostWait() | HostSignal() | CudaCall():
            return None
        case DestroyStream() | DestroyEvent():
            return None
        case _:
            assert_never(op)
