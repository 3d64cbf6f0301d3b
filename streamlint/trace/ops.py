"""The ops of a trace, and the trace itself."""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias, TypeGuard

from streamlint.frozen import Enumeration, frozen
from streamlint.trace.spellings import Spellings
from streamlint.trace.things import (
    MAIN_LANE,
    Access,
    AllocKind,
    Buffer,
    BufferId,
    DeviceId,
    Doubt,
    Event,
    EventId,
    FreeKind,
    Graph,
    GraphId,
    HostEffect,
    LaneId,
    Makes,
    Monitor,
    MonitorId,
    Purpose,
    Site,
    Stream,
    StreamChoice,
    StreamId,
)


class Role(Enumeration):
    """What an op stands for."""

    CODE = "what the code does"
    BEFORE_CALL = "what unseen callers may have queued before a call"
    AFTER_CALL = "what unseen callers do next with the results of a call"
    AFTER_YIELD = "what unseen consumers do with what a generator yields"
    SET_UP = "what was complete before the first call from outside"
    FORWARD = "what a module that is not seen computes before its hooks get it"


@frozen()
class OpBase:
    at: Site
    lane: LaneId = MAIN_LANE
    doubts: frozenset[Doubt] = frozenset()
    role: Role = Role.CODE


@frozen(kw_only=True)
class Launch(OpBase):
    """Device work queued on a stream: a kernel, a memset, an operator."""

    stream: StreamId
    accesses: tuple[Access, ...]
    name: str = "kernel"
    completes: EventId | None = None
    """The event that callers of an asynchronous collective wait for: ``work`` in ``work.wait()``."""
    library: str = ""
    """The library whose call it is, such as ``"CuPy"``; empty if that is not known."""
    makes: Makes = Makes.VALUES
    saves: bool = True
    """Whether autograd may keep its operands alive for the backward pass."""
    choice: StreamChoice = StreamChoice.IMPLIED
    issued_on: DeviceId | None = None
    """The device current at the launch of a kernel that must be that of the stream, as in ``Stream.made_on``.

    None if it is not known, and where the library selects the device of the stream by itself.
    """
    graph: GraphId | None = None
    """The graph whose captured work this is; ``accesses`` are then what was captured, summed up."""
    group: int = 0
    """The group of communication in which it was called, if in one: its end has queued it."""
    waits_on_host: bool = False
    """A copy for which the host would wait if what it writes were on the host: ``page.copy_(rows)``."""


def launches_graph(op: OpBase) -> TypeGuard[Launch]:
    """Whether it is a launch of a graph: its accesses are those that were captured."""
    return isinstance(op, Launch) and op.graph is not None


@frozen(kw_only=True)
class Copy(OpBase):
    """A copy queued on a stream. With ``STAGED`` and ``BLOCKS`` the host itself reads the source."""

    stream: StreamId
    src: Access
    dst: Access
    host: HostEffect = HostEffect.ASYNC
    name: str = "copy"
    library: str = ""
    choice: StreamChoice = StreamChoice.IMPLIED
    only_if_elsewhere: bool = False
    """``x.to("cuda")`` copies nothing, and gives the source itself, if that is on the device already."""

    @property
    def accesses(self) -> tuple[Access, ...]:
        return (self.src, self.dst)


@frozen(kw_only=True)
class HostAccess(OpBase):
    """The host reads or writes memory itself."""

    accesses: tuple[Access, ...]
    name: str = "host access"


@frozen(kw_only=True)
class Record(OpBase):
    """``event`` now stands for the tail of ``stream``; an earlier record is forgotten."""

    stream: StreamId
    event: EventId
    issued_on: DeviceId | None = None
    """The device of the stream, as in ``Stream.made_on``."""
    group: int = 0
    """The group of communication that is open, if one is: what is called in it is queued when it ends."""


@frozen(kw_only=True)
class Wait(OpBase):
    """Later work of ``stream`` waits for the record that ``event`` holds now, if any."""

    stream: StreamId
    event: EventId
    name: str = "wait"


@frozen(kw_only=True)
class SyncEvent(OpBase):
    """The host waits for the record that ``event`` holds now, if any."""

    event: EventId
    name: str = "synchronize"
    purpose: Purpose = Purpose.ORDER


@frozen(kw_only=True)
class SyncStream(OpBase):
    """The host waits for all that was queued on ``stream``."""

    stream: StreamId
    name: str = "synchronize"
    purpose: Purpose = Purpose.ORDER


@frozen(kw_only=True)
class SyncDevice(OpBase):
    """The host waits for all streams of ``device``."""

    device: DeviceId
    name: str = "synchronize"
    purpose: Purpose = Purpose.ORDER


@frozen(kw_only=True)
class Barrier(OpBase):
    """Unseen code that may order ``streams`` with each other and with the host, or may not.

    It never orders anything for sure: pairs that only a barrier orders are ``Unknown``.
    ``why`` names the doubt.
    """

    streams: tuple[StreamId, ...]
    why: Doubt = Doubt.ESCAPE
    name: str = "unresolved call"
    graphs: tuple[GraphId, ...] = ()
    """Graphs that it received, and may have launched."""


@frozen(kw_only=True)
class Alloc(OpBase):
    """``buffer`` comes to life; ``stream`` where the allocation is ordered by one."""

    buffer: BufferId
    stream: StreamId | None = None
    name: str = "allocation"
    kind: AllocKind = AllocKind.CACHED
    reuses: BufferId | None = None
    """Whose memory it gets, where that was seen."""


@frozen(kw_only=True)
class Free(OpBase):
    """``buffer`` goes back to its allocator; ``stream`` where the free is ordered by one."""

    buffer: BufferId
    stream: StreamId | None = None
    kind: FreeKind = FreeKind.EXPLICIT
    name: str = "free"
    at_once: bool = False
    """Whether it is known to wait for nothing, as ``cuMemUnmap`` does; ``cudaFree`` waits for the device."""
    of_another: bool = False
    """Whether an object owns the memory that is freed by its address: ``cudaFree(x.data_ptr())``."""
    known_by_address: bool = False
    """Whether somebody has the address as a number, and may use it after the last reference went."""


@frozen(kw_only=True)
class KeepAlive(OpBase):
    """The allocator will not reuse ``buffer`` before the work now on ``stream`` is done."""

    buffer: BufferId
    stream: StreamId
    name: str = "record_stream"


@frozen(kw_only=True)
class HandOff(OpBase):
    """``buffer`` becomes known to another library, by a protocol or as an address.

    Where the protocol orders streams the waits stand beside it as ops of their own.
    """

    buffer: BufferId
    taker: str = ""
    """The library that takes it; empty for an address that is given away."""
    orders: bool = False
    """Whether the stream of the giver and that of the taker were ordered."""
    name: str = "hand-off"


@frozen(kw_only=True)
class Callback(OpBase):
    """A host function queued on ``stream``; ops with ``lane == body`` are what it does.

    Ordered in the stream like a kernel: the body starts after earlier work of the stream.
    """

    stream: StreamId
    body: LaneId
    code: BufferId | None = None
    """The object that the driver calls, where nothing but the program keeps it: a ctypes callback."""
    name: str = "host callback"


@frozen(kw_only=True)
class CallbackEnd(OpBase):
    """Later work of ``stream`` starts after the body that ends here."""

    stream: StreamId
    body: LaneId


@frozen(kw_only=True)
class Spawn(OpBase):
    """A host thread starts: its ops have ``lane == child`` and know what this lane knew."""

    child: LaneId
    goes_on: LaneId | None = None
    """The lane that the same thread had before: it goes on, as somebody has put something into its queue."""
    is_process: bool = False
    """Whether it is a process of its own: it shares no context of CUDA with this one."""


@frozen(kw_only=True)
class Join(OpBase):
    """This lane waits for the end of the thread ``child``."""

    child: LaneId
    limited: bool = False
    """Whether it goes on after a time, as ``thread.join(0.5)`` does. It is taken to have seen the end."""


@frozen(kw_only=True)
class HostWait(OpBase):
    """The thread goes on when it has the lock, when the flag is set, or when the queue has an item."""

    monitor: MonitorId
    name: str = "wait"
    limited: bool = False
    """Whether it gives up after a time, as ``queue.get(timeout=1)`` does: nothing waits here for good."""


@frozen(kw_only=True)
class HostSignal(OpBase):
    """The thread gives the lock back, sets the flag, or puts an item."""

    monitor: MonitorId
    name: str = "signal"


@frozen(kw_only=True)
class CudaCall(OpBase):
    """A CUDA call that orders nothing (an error query, an allocation size query, a create).

    ``stream`` or ``event`` is what a completion query asks about.
    """

    name: str
    stream: StreamId | None = None
    event: EventId | None = None
    times: tuple[EventId, ...] = ()
    """Events whose time it reads; all must be complete."""


@frozen(kw_only=True)
class DestroyStream(OpBase):
    stream: StreamId


@frozen(kw_only=True)
class DestroyEvent(OpBase):
    """Waits already issued keep the record that they saw."""

    event: EventId


class CaptureMode(Enumeration):
    """Which threads may not make calls that are unsafe while something is captured, such as an allocation."""

    GLOBAL = "no thread"
    THREAD_LOCAL = "not the thread that captures"
    RELAXED = "any thread may"

    @classmethod
    def named(cls, given: str | int) -> CaptureMode:
        """``"thread_local"``, ``cudaStreamCaptureModeThreadLocal``, ``1``; others are relaxed."""
        if isinstance(given, int):
            return {0: cls.GLOBAL, 1: cls.THREAD_LOCAL}.get(given, cls.RELAXED)
        plain = given.lower().replace("_", "")
        if plain.endswith("global"):
            return cls.GLOBAL
        return cls.THREAD_LOCAL if plain.endswith("threadlocal") else cls.RELAXED


@frozen(kw_only=True)
class BeginCapture(OpBase):
    """Work queued on ``stream`` becomes nodes of a graph. An unknown error mode counts as relaxed."""

    stream: StreamId
    mode: CaptureMode = CaptureMode.GLOBAL


@frozen(kw_only=True)
class EndCapture(OpBase):
    """In doubt where an exception left the captured block."""

    stream: StreamId
    writes: tuple[Access, ...] = ()
    """What each launch of the graph writes, and the capture itself does not."""
    swapped: tuple[tuple[BufferId, BufferId], ...] = ()
    """Memory that a launch begins with, and memory that it leaves its last result in, where the code has
    swapped the two while it was captured: ``self.state, self.next = self.next, self.state``."""
    graph: GraphId | None = None


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
    | HandOff
    | Callback
    | CallbackEnd
    | Spawn
    | Join
    | HostWait
    | HostSignal
    | CudaCall
    | DestroyStream
    | DestroyEvent
    | BeginCapture
    | EndCapture
)


class Provenance(Enumeration):
    STATIC = "predicted from source"
    OBSERVED = "recorded on a GPU"


@frozen()
class Trace:
    """One path through one entry."""

    ops: tuple[Op, ...]
    streams: dict[StreamId, Stream]
    events: dict[EventId, Event]
    buffers: dict[BufferId, Buffer]
    graphs: dict[GraphId, Graph] = field(default_factory=dict)
    monitors: dict[MonitorId, Monitor] = field(default_factory=dict)
    entry: str = ""
    path: tuple[str, ...] = ()
    """The decisions that this path took, as readable conditions."""
    provenance: Provenance = Provenance.STATIC
    cut: tuple[str, ...] = ()
    """Budgets that ran out while the trace was made; empty if it is complete."""
    assumed_device: bool = False
    """Whether something that names a device without telling which was taken to name the current one."""
    run_by_several: bool = False
    """Whether several threads run this entry, each with an object of its own: ``Worker.run``."""
    left_elements: bool = False
    """Whether a loop did not come by all elements of a list: ``for job in running: if job.id == wanted:``."""
    flags: frozenset[str] = frozenset()
    """Parameters that the callers of this path set otherwise than they are by default."""
    is_captured: bool = False
    """Whether a test has told that somebody captures what runs: ``is_current_stream_capturing()``."""
    unseen: tuple[int, ...] = ()
    """In front of which ops calls of unseen code stand, made for what they do: ``backend.finish()``."""
    asking: tuple[int, ...] = ()
    """In front of which ops a thread asks for what another one may tell: in a loop, or a block not known."""
    contradicted: frozenset[BufferId] = frozenset()
    """Memory of which the path has answered a test wrongly: ``isinstance(out, dict)`` was taken to be false,
    and then somebody takes ``out["logits"]``. No run of the code is like that."""
    spelled: Spellings = field(default_factory=Spellings)
    """How the functions that it comes by write its streams, events and memory."""

    def calls_unseen(self, after: int, upto: int) -> bool:
        """Whether code that is not seen is called behind one op and no later than in front of another."""
        return any(after < number <= upto for number in self.unseen)
