"""One pass over a trace that finds the happens-before edges and the clocks they imply."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from streamlint.frozen import Enumeration
from streamlint.order.clocks import Clocks, Place, Source, known
from streamlint.order.hb_streams import (
    NO_DOUBT,
    Doubts,
    Hub,
    Hubs,
    Queue,
    kind_of,
    may_cover,
    queue_key,
)
from streamlint.order.semaphores import Semaphore
from streamlint.trace import (
    Alloc,
    Barrier,
    BeginCapture,
    Callback,
    CallbackEnd,
    Copy,
    CudaCall,
    DestroyEvent,
    DestroyStream,
    Doubt,
    EndCapture,
    EventId,
    Free,
    GraphId,
    HandOff,
    HostAccess,
    HostEffect,
    HostSignal,
    HostWait,
    Join,
    KeepAlive,
    LaneId,
    Launch,
    MonitorId,
    MonitorKind,
    Op,
    OpId,
    Record,
    Spawn,
    StreamId,
    StreamKind,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Trace,
    Wait,
)


class EdgeKind(Enumeration):
    """Why two ops are ordered."""

    STREAM = "same stream"
    LANE = "same host thread"
    ISSUE = "known to the host at issue"
    WAIT = "event wait"
    SYNC = "host synchronization"
    LEGACY = "legacy default stream"
    CALLBACK = "host callback"
    THREAD = "host thread"
    GRAPH = "launches of one graph"
    MAYBE = "possibly ordered"


class Reason(NamedTuple):
    """One incoming edge."""

    earlier: OpId
    kind: EdgeKind
    doubts: Doubts


Hoped: TypeAlias = tuple[OpId, Doubts]


@dataclass(slots=True)
class _Lane:
    """A host thread or callback body.

    ``sure`` is the op whose past, itself included, is all the lane knows for sure, ``hoped`` one
    that it may know too. ``at`` counts what the lane came to know, so it moves with both.
    """

    chain: int
    at: int
    sure: OpId | None
    why: EdgeKind
    hoped: Hoped | None = None
    swept: dict[object, OpId] = field(default_factory=dict)


class Builder:
    """Fills ``sources``, ``clocks``, ``issue``, ``released`` and ``seen`` for all ops of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.clocks = Clocks()
        self.sources: list[tuple[Reason, ...]] = []
        self.issue: list[tuple[OpId | None, Hoped | None]] = []
        """What the lane of each op knew when it issued it."""
        self.released: dict[OpId, Place] = {}
        """Where the host has read the source of a copy."""
        self.seen: dict[OpId, OpId] = {}
        self._setters = Counter(op.monitor for op in trace.ops if isinstance(op, HostSignal))
        self._lanes: dict[LaneId, _Lane] = {}
        self._origins: dict[LaneId, tuple[OpId, EdgeKind]] = {}
        self._idle: list[Place] = []
        self._queues: dict[object, Queue] = {}
        self._recent: dict[int, Queue] = {}
        self._outside: list[Queue] = []
        self._hubs = Hubs()
        self._records: dict[EventId, list[Hoped]] = {}
        self._first: dict[EventId, Hoped] = {}
        self._launched: dict[GraphId, OpId] = {}
        self._signals: dict[MonitorId, list[OpId]] = {}
        self._semaphores = {
            one.id: Semaphore(one.count)
            for one in trace.monitors.values()
            if one.kind is MonitorKind.SEMAPHORE and not one.uncounted
        }

    def run(self) -> None:
        for index, op in enumerate(self._trace.ops):
            self._add(OpId(index), op)

    def _add(self, i: OpId, op: Op) -> None:  # noqa: C901, PLR0912  one case an op
        lane = self._lane(op.lane)
        self.issue.append((lane.sure, lane.hoped))
        match op:
            case Launch():
                self._on_stream(i, lane, self._queue(op.stream, op.lane), self._last_launch(i, op))
            case Copy():
                self._on_stream(i, lane, self._queue(op.stream, op.lane), ())
                self._tell_host(i, lane, op)
            case Callback():
                self._on_stream(i, lane, self._queue(op.stream, op.lane), ())
                self._origins[op.body] = (i, EdgeKind.CALLBACK)
            case CallbackEnd():
                self._on_stream(
                    i, lane, self._queue(op.stream, op.lane), self._end(op.body, EdgeKind.CALLBACK)
                )
            case Record():
                queue = self._queue(op.stream, op.lane)
                self._on_stream(i, lane, queue, ())
                self._hold(i, op)
            case Wait():
                self._on_stream(i, lane, self._queue(op.stream, op.lane), self._awaited(i, op, EdgeKind.WAIT))
            case SyncEvent():
                self._on_host(i, lane, self._awaited(i, op, EdgeKind.SYNC))
            case SyncStream():
                self._on_host(i, lane, self._drained(i, lane, op))
            case SyncDevice():
                self._on_host(i, lane, self._drained_device(i, lane, op))
            case Barrier():
                self._barrier(i, lane, op)
            case Alloc(stream=stream) | Free(stream=stream) if stream is not None:
                self._memory(i, lane, self._queue(stream, op.lane), is_alloc=isinstance(op, Alloc))
            case Spawn():
                self._on_host(i, lane, ())
                self._origins[op.child] = (i, EdgeKind.THREAD)
            case Join():
                ended = self._end(op.child, EdgeKind.THREAD, sure=not op.doubts)
                self._on_host(i, lane, _doubted(ended, op.doubts))
            case HostWait():
                self._on_host(i, lane, self._signalled(op))
            case HostSignal():
                self._on_host(i, lane, ())
                self._signals.setdefault(op.monitor, []).append(i)
                if op.monitor in self._semaphores:
                    self._semaphores[op.monitor].give(i, self._is_before)
            case DestroyEvent():
                self._on_host(i, lane, ())
                self._records.pop(op.event, None)
            case (
                HostAccess()
                | Alloc()
                | Free()
                | KeepAlive()
                | HandOff()
                | CudaCall()
                | DestroyStream()
                | BeginCapture()
                | EndCapture()
            ):
                self._on_host(i, lane, ())

    # Host lanes

    def _lane(self, name: LaneId) -> _Lane:
        lane = self._lanes.get(name)
        if lane is None:
            start = self._origins.get(name)
            if start is None:
                lane = _Lane(self.clocks.new_chain(), 0, None, EdgeKind.LANE)
            else:
                chain, at = self._chain_after(start[0])
                lane = _Lane(chain, at + 1, *start)
            self._lanes[name] = lane
        return lane

    def _chain_after(self, start: OpId) -> Place:
        """A chain surely before ``start``: views stay short however many callbacks run."""
        for index, place in enumerate(self._idle[-4:], max(len(self._idle) - 4, 0)):
            if known(self.clocks.firm[start], place):
                return self._idle.pop(index)
        return Place(self.clocks.new_chain(), 0)

    def _end(self, name: LaneId, kind: EdgeKind, *, sure: bool = True) -> tuple[Reason, ...]:
        """What is known at the end of a lane; should it go on all the same, it starts from there."""
        lane = self._lanes.get(name)
        if lane is None:
            start = self._origins.get(name)
            return () if start is None else (Reason(start[0], kind, NO_DOUBT),)
        sources: tuple[Reason, ...] = ()
        if lane.sure is not None:
            sources += (Reason(lane.sure, kind, NO_DOUBT),)
        if lane.hoped is not None:
            sources += (Reason(lane.hoped[0], kind, lane.hoped[1]),)
        if sure and lane.sure is not None:
            self._retire(name, lane, lane.sure)
        return sources

    def _retire(self, name: LaneId, lane: _Lane, last: OpId) -> None:
        if name in self._origins and lane.hoped is None:
            del self._lanes[name]
            self._origins[name] = (last, EdgeKind.LANE)
            self._idle.append(Place(lane.chain, lane.at))

    def _on_host(self, i: OpId, lane: _Lane, extra: tuple[Reason, ...]) -> None:
        sources = [] if lane.sure is None else [Reason(lane.sure, lane.why, NO_DOUBT)]
        if lane.hoped is not None:
            sources.append(Reason(lane.hoped[0], EdgeKind.SYNC, lane.hoped[1]))
        sources += extra
        own = lane.sure is not None and self.clocks.place[lane.sure].chain == lane.chain
        lane.at += 1
        self._place(Place(lane.chain, lane.at), lane.sure if own else None, sources, None)
        lane.sure, lane.why, lane.hoped = i, EdgeKind.LANE, None

    def _tell_host(self, i: OpId, lane: _Lane, op: Copy) -> None:
        """What the host knows once a copy call has returned."""
        if op.host is HostEffect.ASYNC:
            return
        lane.at += 1
        self.released[i] = Place(lane.chain, lane.at)
        if op.host is HostEffect.STAGED:
            return
        doubts = op.doubts
        if op.host is HostEffect.BLOCKS_OBSERVED:
            doubts |= {Doubt.OBSERVED}
        if doubts:
            # The copy came after what was hoped before, so the latest stands for all.
            lane.hoped = (i, doubts)
        else:
            lane.sure, lane.why, lane.hoped = i, EdgeKind.SYNC, None

    def _place(self, place: Place, base: OpId | None, sources: list[Reason], mark: Place | None) -> None:
        self.sources.append(tuple(sources))
        joined = [Source(s.earlier, not s.doubts) for s in sources]
        self.clocks.append(place, base, joined, mark)

    def _signalled(self, op: HostWait) -> tuple[Reason, ...]:
        """The one signal that lets a wait for a flag, or at a condition, go on; of several nobody knows.

        Who waits until all that was in a queue is done waits for each.
        """
        monitor = self._trace.monitors[op.monitor]
        if monitor.kind is MonitorKind.TASKS:
            signals = self._signals.get(op.monitor, ())
            return tuple(Reason(i, EdgeKind.THREAD, op.doubts) for i in signals)
        if monitor.kind in (MonitorKind.LOCK, MonitorKind.QUEUE):
            return ()
        semaphore = self._semaphores.get(op.monitor)
        if semaphore is not None:
            perhaps = op.doubts | {Doubt.THREADS}
            return tuple(
                Reason(i, EdgeKind.THREAD, op.doubts if surely else perhaps) for i, surely in semaphore.take()
            )
        one = self._setters[op.monitor] == 1 and monitor.cleared_after is None
        doubts = op.doubts if one else op.doubts | {Doubt.THREADS}
        return tuple(Reason(i, EdgeKind.THREAD, doubts) for i in self._signals.get(op.monitor, ()))

    def _is_before(self, earlier: OpId, later: OpId) -> bool:
        return self.clocks.is_before(earlier, later, self.clocks.firm)

    # Streams

    def _queue(self, stream_id: StreamId, lane: LaneId) -> Queue:
        stream = self._trace.streams[stream_id]
        key = queue_key(stream, lane)
        queue = self._queues.get(key)
        if queue is None:
            queue = Queue(self.clocks.new_chain(), stream, *self._hubs.roles(stream))
            self._queues[key] = queue
            if stream.made_like is not None:
                queue.begun_after = self._queue(stream.made_like, lane).work
            if kind_of(stream) in (StreamKind.CURRENT, StreamKind.UNKNOWN):
                self._outside.append(queue)
        return queue

    def _on_stream(self, i: OpId, lane: _Lane, queue: Queue, extra: tuple[Reason, ...]) -> None:
        sources = self._stream_sources(lane, queue)
        for hub in queue.member_of:
            self._add_hub(sources, queue, hub)
            sources += [Reason(op, *_hub_edge(hub)) for op in hub.dirty.values()]
            hub.dirty.clear()
        for hub in queue.spoke_of:
            self._add_hub(sources, queue, hub)
        sources += extra
        self._place_on_stream(i, lane, queue, sources)
        queue.work = i
        self._recent.pop(queue.chain, None)
        self._recent[queue.chain] = queue
        for hub in queue.member_of:
            hub.tail = i
        for hub in queue.spoke_of:
            hub.dirty[queue.chain] = i

    def _last_launch(self, i: OpId, op: Launch) -> tuple[Reason, ...]:
        """The launch of the same graph before this one: a graph does not run beside itself."""
        if op.graph is None:
            return ()
        last = self._launched.get(op.graph)
        self._launched[op.graph] = i
        return () if last is None else (Reason(last, EdgeKind.GRAPH, NO_DOUBT),)

    def _memory(self, i: OpId, lane: _Lane, queue: Queue, *, is_alloc: bool) -> None:
        """A stream-ordered allocation or free: ordered like an op of the stream, but no work.

        Allocators that cache put nothing on the stream: ``y = cupy.empty(n)`` between the work of
        two blocking streams is no barrier between them.
        """
        sources = self._stream_sources(lane, queue)
        unchanged = not any(hub.dirty for hub in queue.member_of)
        for hub in queue.member_of:
            sources += [Reason(op, *_hub_edge(hub)) for op in hub.dirty.values()]
        for hub in (*queue.member_of, *queue.spoke_of):
            self._add_hub(sources, queue, hub)
        if not queue.member_of:
            self._place_on_stream(i, lane, queue, sources)
            if is_alloc:
                for hub in queue.spoke_of:
                    hub.dirty[queue.chain] = i
            return
        self._place_aside(i, lane, queue, sources)
        if is_alloc and unchanged:
            # It passes on nothing but what it follows anyway: the users of the memory come after it.
            for hub in queue.member_of:
                hub.tail = i

    def _place_aside(self, i: OpId, lane: _Lane, queue: Queue, sources: list[Reason]) -> None:
        base = queue.side_tail
        if queue.side_chain < 0:
            queue.side_chain = self.clocks.new_chain()
        queue.side_tail = i
        queue.side_at += 1
        mark = Place(lane.chain, lane.at) if lane.at else None
        self._place(Place(queue.side_chain, queue.side_at), base, sources, mark)

    def _place_on_stream(self, i: OpId, lane: _Lane, queue: Queue, sources: list[Reason]) -> None:
        base = queue.tail
        queue.tail = i
        queue.at += 1
        mark = Place(lane.chain, lane.at) if lane.at else None
        self._place(Place(queue.chain, queue.at), base, sources, mark)

    def _stream_sources(self, lane: _Lane, queue: Queue) -> list[Reason]:
        sources: list[Reason] = []
        tail = queue.tail
        begun = tail if tail is not None else queue.begun_after
        if begun is not None:
            sources.append(Reason(begun, EdgeKind.STREAM, NO_DOUBT))
        if queue.side_tail is not None and (tail is None or queue.side_tail > tail):
            sources.append(Reason(queue.side_tail, EdgeKind.STREAM, NO_DOUBT))
        if lane.sure is not None and not (
            tail is not None and known(self.clocks.firm[tail], Place(lane.chain, lane.at))
        ):
            sources.append(Reason(lane.sure, EdgeKind.ISSUE, NO_DOUBT))
        if lane.hoped is not None and not self._hopes(tail, lane.hoped[0]):
            sources.append(Reason(lane.hoped[0], EdgeKind.SYNC, lane.hoped[1]))
        for op, doubts in queue.pending.values():
            if not self._hopes(tail, op):
                sources.append(Reason(op, EdgeKind.MAYBE, doubts))
        queue.pending.clear()
        return sources

    def _hopes(self, tail: OpId | None, op: OpId) -> bool:
        return tail is not None and (tail == op or self.clocks.is_before(op, tail, self.clocks.hopeful))

    def _add_hub(self, sources: list[Reason], queue: Queue, hub: Hub) -> None:
        op = hub.tail
        if op is None or op == queue.tail:
            return
        views = self.clocks.hopeful if hub.doubts else self.clocks.firm
        if queue.tail is None or not self.clocks.is_before(op, queue.tail, views):
            sources.append(Reason(op, *_hub_edge(hub)))

    # Events and synchronization

    def _hold(self, i: OpId, op: Record) -> None:
        """A record replaces what the event holds; one in doubt may leave it."""
        held: list[Hoped] = []
        if op.doubts:
            for old, doubts in self._records.get(op.event, ()):
                # Behind it on the same stream, the new record covers the old one either way.
                covered = self.clocks.is_before(old, i, self.clocks.firm)
                if covered and doubts:
                    continue
                held.append((old, doubts if covered else doubts | op.doubts))
        self._records[op.event] = [*held, (i, op.doubts)]
        self._first.setdefault(op.event, (i, op.doubts))

    def _awaited(self, i: OpId, op: Wait | SyncEvent, kind: EdgeKind) -> tuple[Reason, ...]:
        held = self._records.get(op.event)
        sample = self._trace.events[op.event].made_like
        if not held and sample in self._first:
            held = [self._first[sample]]
        if not held:
            return ()
        self.seen[i] = held[-1][0]
        return tuple(Reason(record, kind, doubts | op.doubts) for record, doubts in held)

    def _drained(self, i: OpId, lane: _Lane, op: SyncStream) -> tuple[Reason, ...]:
        queue = self._queue(op.stream, op.lane)
        sources = [] if queue.work is None else [Reason(queue.work, EdgeKind.SYNC, op.doubts)]
        kinds = (StreamKind.LEGACY, StreamKind.CURRENT, StreamKind.UNKNOWN)
        wide = queue.stream.kind in kinds or bool(queue.stream.part_of)
        for other in self._changed(i, lane, op, queue.chain) if wide else self._outside:
            doubts = None if other is queue else may_cover(queue.stream, other.stream)
            if doubts is not None and other.work is not None:
                kind = EdgeKind.MAYBE if doubts else EdgeKind.SYNC
                sources.append(Reason(other.work, kind, doubts | op.doubts))
        return tuple(sources)

    def _drained_device(self, i: OpId, lane: _Lane, op: SyncDevice) -> tuple[Reason, ...]:
        return tuple(
            Reason(queue.work, EdgeKind.SYNC, op.doubts)
            for queue in self._changed(i, lane, op, op.device)
            if queue.work is not None and queue.stream.device == op.device
        )

    def _changed(self, i: OpId, lane: _Lane, op: SyncStream | SyncDevice, scope: object) -> list[Queue]:
        """The queues with work since this lane last synchronized the same scope for sure, oldest first."""
        since = lane.swept.get(scope, -1)
        if not op.doubts:
            lane.swept[scope] = i
        changed = []
        for queue in reversed(self._recent.values()):
            if queue.work is None or queue.work < since:
                break
            changed.append(queue)
        changed.reverse()
        return changed

    def _barrier(self, i: OpId, lane: _Lane, op: Barrier) -> None:
        doubts = op.doubts | {op.why}
        queues = [self._queue(stream, op.lane) for stream in op.streams]
        tails = tuple(Reason(q.work, EdgeKind.MAYBE, doubts) for q in queues if q.work is not None)
        self._on_host(i, lane, tails)
        for queue in queues:
            queue.pending[op.lane] = (i, doubts)


def _hub_edge(hub: Hub) -> tuple[EdgeKind, Doubts]:
    return (EdgeKind.MAYBE if hub.doubts else EdgeKind.LEGACY, hub.doubts)


def _doubted(sources: tuple[Reason, ...], doubts: Doubts) -> tuple[Reason, ...]:
    return tuple(Reason(op, kind, old | doubts) for op, kind, old in sources) if doubts else sources
