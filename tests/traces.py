"""Hand-written traces: each method of ``Program`` appends one op and returns its id.

p = Program()
a, b = p.stream(), p.stream()
x = p.buffer()
write = p.launch(a, writes=x)
read = p.launch(b, reads=x)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.order.hb import HappensBefore, Ordering, Verdict
from streamlint.source import Span
from streamlint.trace import (
    MAIN_LANE,
    WHOLE,
    Access,
    Alloc,
    Barrier,
    Buffer,
    BufferId,
    Callback,
    CallbackEnd,
    Copy,
    DestroyEvent,
    Doubt,
    Event,
    EventId,
    Free,
    GraphId,
    HostAccess,
    HostEffect,
    HostSignal,
    HostWait,
    Join,
    LaneId,
    Launch,
    Mode,
    Monitor,
    MonitorId,
    MonitorKind,
    Op,
    OpId,
    Origin,
    Record,
    Region,
    Site,
    Space,
    Spawn,
    Stream,
    StreamId,
    StreamKind,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Trace,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

Doubts = frozenset[Doubt]
SURE: Doubts = frozenset()


def place(line: int) -> Span:
    return Span("example.py", line, 0, line, 1)


def access(buffer: BufferId, mode: Mode, region: Region = WHOLE, doubts: Doubts = SURE) -> Access:
    return Access(buffer, mode, region, doubts)


class Program:
    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.streams: dict[StreamId, Stream] = {}
        self.events: dict[EventId, Event] = {}
        self.buffers: dict[BufferId, Buffer] = {}
        self.monitors: dict[MonitorId, Monitor] = {}
        self._lanes = MAIN_LANE

    def trace(self) -> Trace:
        return Trace(tuple(self.ops), self.streams, self.events, self.buffers, monitors=self.monitors)

    # What there is

    def stream(
        self,
        kind: StreamKind = StreamKind.NON_BLOCKING,
        device: str = "cur",
        *,
        made_here: bool | None = None,
    ) -> StreamId:
        name = StreamId(len(self.streams))
        created = kind in (StreamKind.BLOCKING, StreamKind.NON_BLOCKING) if made_here is None else made_here
        span = place(900 + name) if created else None
        self.streams[name] = Stream(name, kind, device, f"s{name}", span)
        return name

    def event(self, device: str = "cur") -> EventId:
        name = EventId(len(self.events))
        self.events[name] = Event(name, device, f"e{name}")
        return name

    def buffer(self, space: Space = Space.DEVICE) -> BufferId:
        name = BufferId(len(self.buffers))
        self.buffers[name] = Buffer(name, f"b{name}", space, Origin.ALLOCATED)
        return name

    def monitor(self, kind: MonitorKind, *, reset: bool = False, count: int = 0) -> MonitorId:
        name = MonitorId(len(self.monitors))
        self.monitors[name] = Monitor(
            name, kind, f"m{name}", cleared_after=0 if reset else None, count=count, uncounted=reset
        )
        return name

    def new_lane(self) -> LaneId:
        self._lanes = LaneId(self._lanes + 1)
        return self._lanes

    # What happens

    def add(self, op: Op) -> OpId:
        self.ops.append(op)
        return OpId(len(self.ops) - 1)

    def _at(self) -> Site:
        return Site(place(len(self.ops) + 1))

    def launch(
        self,
        stream: StreamId,
        *accesses: Access,
        reads: BufferId | None = None,
        writes: BufferId | None = None,
        lane: LaneId = MAIN_LANE,
        doubts: Doubts = SURE,
        graph: GraphId | None = None,
    ) -> OpId:
        every = accesses + _whole(reads, writes)
        return self.add(Launch(self._at(), lane, doubts, stream=stream, accesses=every, graph=graph))

    def copy(
        self,
        stream: StreamId,
        src: BufferId,
        dst: BufferId,
        host: HostEffect = HostEffect.ASYNC,
        lane: LaneId = MAIN_LANE,
        doubts: Doubts = SURE,
    ) -> OpId:
        read, write = Access(src, Mode.READ), Access(dst, Mode.WRITE)
        return self.add(Copy(self._at(), lane, doubts, stream=stream, src=read, dst=write, host=host))

    def host(
        self,
        *accesses: Access,
        reads: BufferId | None = None,
        writes: BufferId | None = None,
        lane: LaneId = MAIN_LANE,
    ) -> OpId:
        return self.add(HostAccess(self._at(), lane, accesses=accesses + _whole(reads, writes)))

    def record(
        self, stream: StreamId, event: EventId, lane: LaneId = MAIN_LANE, doubts: Doubts = SURE
    ) -> OpId:
        return self.add(Record(self._at(), lane, doubts, stream=stream, event=event))

    def wait(self, stream: StreamId, event: EventId, lane: LaneId = MAIN_LANE, doubts: Doubts = SURE) -> OpId:
        return self.add(Wait(self._at(), lane, doubts, stream=stream, event=event))

    def sync_event(self, event: EventId, lane: LaneId = MAIN_LANE, doubts: Doubts = SURE) -> OpId:
        return self.add(SyncEvent(self._at(), lane, doubts, event=event))

    def sync_stream(self, stream: StreamId, lane: LaneId = MAIN_LANE, doubts: Doubts = SURE) -> OpId:
        return self.add(SyncStream(self._at(), lane, doubts, stream=stream))

    def sync_device(self, device: str = "cur", lane: LaneId = MAIN_LANE, doubts: Doubts = SURE) -> OpId:
        return self.add(SyncDevice(self._at(), lane, doubts, device=device))

    def barrier(
        self, streams: Iterable[StreamId], why: Doubt = Doubt.ESCAPE, lane: LaneId = MAIN_LANE
    ) -> OpId:
        return self.add(Barrier(self._at(), lane, streams=tuple(streams), why=why))

    def alloc(self, buffer: BufferId, stream: StreamId | None = None, lane: LaneId = MAIN_LANE) -> OpId:
        return self.add(Alloc(self._at(), lane, buffer=buffer, stream=stream))

    def free(self, buffer: BufferId, stream: StreamId | None = None, lane: LaneId = MAIN_LANE) -> OpId:
        return self.add(Free(self._at(), lane, buffer=buffer, stream=stream))

    def destroy_event(self, event: EventId, lane: LaneId = MAIN_LANE) -> OpId:
        return self.add(DestroyEvent(self._at(), lane, event=event))

    def callback(
        self, stream: StreamId, body: LaneId, lane: LaneId = MAIN_LANE, code: BufferId | None = None
    ) -> OpId:
        return self.add(Callback(self._at(), lane, stream=stream, body=body, code=code))

    def callback_end(self, stream: StreamId, body: LaneId) -> OpId:
        return self.add(CallbackEnd(self._at(), body, stream=stream, body=body))

    def host_wait(self, monitor: MonitorId, lane: LaneId = MAIN_LANE) -> OpId:
        return self.add(HostWait(self._at(), lane, monitor=monitor))

    def host_signal(self, monitor: MonitorId, lane: LaneId = MAIN_LANE) -> OpId:
        return self.add(HostSignal(self._at(), lane, monitor=monitor))

    def spawn(self, child: LaneId, lane: LaneId = MAIN_LANE) -> OpId:
        return self.add(Spawn(self._at(), lane, child=child))

    def join(self, child: LaneId, lane: LaneId = MAIN_LANE) -> OpId:
        return self.add(Join(self._at(), lane, child=child))


def _whole(reads: BufferId | None, writes: BufferId | None) -> tuple[Access, ...]:
    found = []
    if reads is not None:
        found.append(Access(reads, Mode.READ))
    if writes is not None:
        found.append(Access(writes, Mode.WRITE))
    return tuple(found)


def order(p: Program, earlier: OpId, later: OpId) -> Ordering:
    return HappensBefore(p.trace()).ordered(earlier, later)


def verdict(p: Program, earlier: OpId, later: OpId) -> Verdict:
    return order(p, earlier, later).verdict
