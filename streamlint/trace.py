"""The op vocabulary: what a program did, or would do, in the order in which the host issued it.

Two producers emit traces: the static interpreter predicts them from source, and ``confirm``
records them on a GPU. ``hb`` and every rule read only what is defined here, so the ordering laws
hold, and are tested, without any source text and without any GPU.

An op's id is its index in ``Trace.ops``. Ops stand in issue order, so every happens-before edge
points forward.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NewType, TypeAlias

from streamlint.regions import (
    UNBOUNDED,
    WHOLE,
    Interval,
    Overlap,
    Region,
    Selector,
    Symbol,
    SymbolSlice,
    covers,
    overlap,
)

if TYPE_CHECKING:
    from streamlint.source import Span

__all__ = [
    "UNBOUNDED",
    "WHOLE",
    "Interval",
    "Overlap",
    "Region",
    "Selector",
    "Symbol",
    "SymbolSlice",
    "covers",
    "overlap",
]

OpId = NewType("OpId", int)
StreamId = NewType("StreamId", int)
EventId = NewType("EventId", int)
BufferId = NewType("BufferId", int)
LaneId = NewType("LaneId", int)
DeviceId: TypeAlias = str
"""``"cur"`` is the device current at entry; otherwise an index, or a name that stands for one."""

MAIN_LANE = LaneId(0)
CURRENT_DEVICE: DeviceId = "cur"


class StreamKind(Enum):
    """What decides a stream's implicit edges."""

    LEGACY = "legacy default stream"
    PER_THREAD = "per-thread default stream"
    BLOCKING = "blocking stream"
    NON_BLOCKING = "non-blocking stream"
    CURRENT = "stream current at entry"
    """Unknown: the legacy default stream unless the caller selected another one."""
    UNKNOWN = "stream from outside"
    """A stream handed in by code that was not seen; it may equal any other stream."""


class Space(Enum):
    """Where a buffer lives."""

    DEVICE = "device"
    PINNED = "pinned host"
    PAGEABLE = "pageable host"
    MANAGED = "managed"
    UNKNOWN = "unknown"

    @property
    def on_host(self) -> bool:
        return self in (Space.PINNED, Space.PAGEABLE)


class Origin(Enum):
    """How a buffer came into the trace."""

    ALLOCATED = "allocated"
    ARGUMENT = "argument"
    RESULT = "result"


class Mode(Enum):
    READ = "read"
    WRITE = "write"
    UPDATE = "update"

    @property
    def reads(self) -> bool:
        return self is not Mode.WRITE

    @property
    def writes(self) -> bool:
        return self is not Mode.READ


class Doubt(Enum):
    """Why an op, an edge or a finding is not certain. Confidence is computed from these."""

    PATH = "a branch was assumed"
    OPAQUE = "an unresolved call is taken to use its arguments"
    CALLS = "an order of outside calls was assumed"
    ARGUMENT = "an argument may still be pending on the current stream"
    SAME_STREAM = "two streams may be one"
    ALIAS = "two places may not overlap"
    ESCAPE = "unresolved code received the stream, event or buffer and may order it"
    THREADS = "two threads issue the operations, and what orders the threads is not followed"
    SIGNAL = "work of one stream waits for a value in memory that another writes"
    SOME_PATHS = "ordered on some paths only"
    OBSERVED = "ordered by measured behaviour that is not documented"
    GUESSED = "both operations are assumptions about unresolved calls"
    BUDGET = "an analysis budget ran out"


@dataclass(frozen=True, slots=True)
class Stream:
    id: StreamId
    kind: StreamKind
    device: DeviceId
    name: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Event:
    id: EventId
    device: DeviceId
    name: str
    span: Span | None = None
    function: str = ""
    """The function that made it, as in ``Site.function``."""
    timing: bool | None = None
    """Whether times can be read from it; ``None`` if that is not known."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A block of memory; views share their base's buffer and differ in region."""

    id: BufferId
    name: str
    space: Space
    origin: Origin
    device: DeviceId = CURRENT_DEVICE
    alloc_stream: StreamId | None = None
    span: Span | None = None
    pool: str | None = None
    """The pool of host memory that hands the block out again once it is dropped, whatever still uses it."""


@dataclass(frozen=True, slots=True)
class Access:
    buffer: BufferId
    mode: Mode
    region: Region = WHOLE
    doubts: frozenset[Doubt] = frozenset()


@dataclass(frozen=True, slots=True)
class Site:
    """Where an op comes from.

    ``text`` is the whitespace-normalized statement. ``calls`` is the chain of call sites from the
    entry down to the function that holds ``span``. ``turn`` counts executions of the same place
    within the trace, and ``call`` the calls from outside (0 is the constructor or the only one).
    """

    span: Span
    function: str = ""
    text: str = ""
    calls: tuple[Span, ...] = ()
    turn: int = 0
    call: int = 0


class HostEffect(Enum):
    """What a copy means to the host thread that issues it (measured: docs/semantics)."""

    ASYNC = "returns at once"
    STAGED = "returns once the source was read; the destination is not complete"
    BLOCKS = "returns when the copy is complete"
    BLOCKS_OBSERVED = "was seen to block, which no document promises"


class FreeKind(Enum):
    EXPLICIT = "freed"
    DROPPED = "last reference dropped"


@dataclass(frozen=True, slots=True)
class OpBase:
    at: Site
    lane: LaneId = MAIN_LANE
    doubts: frozenset[Doubt] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(OpBase):
    """Device work queued on a stream: a kernel, a memset, an operator."""

    stream: StreamId
    accesses: tuple[Access, ...]
    name: str = "kernel"
    completes: EventId | None = None
    """The event that callers of an asynchronous collective wait for: ``work`` in ``work.wait()``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(OpBase):
    """A copy queued on a stream. With ``STAGED`` and ``BLOCKS`` the host itself reads the source."""

    stream: StreamId
    src: Access
    dst: Access
    host: HostEffect = HostEffect.ASYNC
    name: str = "copy"

    @property
    def accesses(self) -> tuple[Access, ...]:
        return (self.src, self.dst)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAccess(OpBase):
    """The host reads or writes memory itself."""

    accesses: tuple[Access, ...]
    name: str = "host access"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(OpBase):
    """``event`` now stands for the tail of ``stream``; an earlier record is forgotten."""

    stream: StreamId
    event: EventId


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(OpBase):
    """Later work of ``stream`` waits for the record that ``event`` holds now, if any."""

    stream: StreamId
    event: EventId
    name: str = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncEvent(OpBase):
    """The host waits for the record that ``event`` holds now, if any."""

    event: EventId
    name: str = "synchronize"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStream(OpBase):
    """The host waits for all that was queued on ``stream``."""

    stream: StreamId
    name: str = "synchronize"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncDevice(OpBase):
    """The host waits for all streams of ``device``."""

    device: DeviceId
    name: str = "synchronize"


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(OpBase):
    """Unseen code that may order ``streams`` with each other and with the host, or may not.

    It never orders anything for sure: pairs that only a barrier orders are ``Unknown``.
    ``why`` names the doubt.
    """

    streams: tuple[StreamId, ...]
    why: Doubt = Doubt.ESCAPE
    name: str = "unresolved call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alloc(OpBase):
    """``buffer`` comes to life; ``stream`` where the allocation is ordered by one."""

    buffer: BufferId
    stream: StreamId | None = None
    name: str = "allocation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Free(OpBase):
    """``buffer`` goes back to its allocator; ``stream`` where the free is ordered by one."""

    buffer: BufferId
    stream: StreamId | None = None
    kind: FreeKind = FreeKind.EXPLICIT
    name: str = "free"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepAlive(OpBase):
    """The allocator will not reuse ``buffer`` before the work now on ``stream`` is done."""

    buffer: BufferId
    stream: StreamId
    name: str = "record_stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback(OpBase):
    """A host function queued on ``stream``; ops with ``lane == body`` are what it does.

    Ordered in the stream like a kernel: the body starts after earlier work of the stream.
    """

    stream: StreamId
    body: LaneId
    name: str = "host callback"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackEnd(OpBase):
    """Later work of ``stream`` starts after the body that ends here."""

    stream: StreamId
    body: LaneId


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn(OpBase):
    """A host thread starts: its ops have ``lane == child`` and know what this lane knew."""

    child: LaneId


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(OpBase):
    """This lane waits for the end of the thread ``child``."""

    child: LaneId


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaCall(OpBase):
    """A CUDA call that orders nothing (an error query, an allocation size query, a create).

    ``stream`` or ``event`` is what a completion query asks about.
    """

    name: str
    stream: StreamId | None = None
    event: EventId | None = None
    times: tuple[EventId, ...] = ()
    """Events whose time it reads; all must be complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyStream(OpBase):
    stream: StreamId


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyEvent(OpBase):
    """Waits already issued keep the record that they saw."""

    event: EventId


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginCapture(OpBase):
    """Work queued on ``stream`` becomes nodes of a graph. An unknown error mode counts as relaxed."""

    stream: StreamId
    relaxed: bool = False
    """The thread may make calls that are unsafe during a capture, such as an allocation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCapture(OpBase):
    """In doubt where an exception left the captured block."""

    stream: StreamId


Op: TypeAlias = (
    Launch
    | Copy
    | HostAccess
    | Record
    | Wait
    | SyncEvent
    | SyncStream
    | SyncDevice
    | Barrier
    | Alloc
    | Free
    | KeepAlive
    | Callback
    | CallbackEnd
    | Spawn
    | Join
    | CudaCall
    | DestroyStream
    | DestroyEvent
    | BeginCapture
    | EndCapture
)


class Provenance(Enum):
    STATIC = "predicted from source"
    OBSERVED = "recorded on a GPU"


@dataclass(frozen=True, slots=True)
class Trace:
    """One path through one entry."""

    ops: tuple[Op, ...]
    streams: dict[StreamId, Stream]
    events: dict[EventId, Event]
    buffers: dict[BufferId, Buffer]
    entry: str = ""
    path: tuple[str, ...] = ()
    """The decisions that this path took, as readable conditions."""
    provenance: Provenance = Provenance.STATIC
    cut: tuple[str, ...] = ()
    """Budgets that ran out while the trace was made; empty if it is complete."""
