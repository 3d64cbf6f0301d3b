"""Which streams of a module its code forks and joins, over all its entries.

A stream that the module makes for itself is known to nobody else. So what no entry waits for is never waited
for, and where one waits for the stream's work and none makes it wait for anything, the other half is missing
for good: no unseen caller can be meant to supply it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations
from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import assert_never

from streamlint.frozen import frozen
from streamlint.judging.edges import kept_for_another
from streamlint.rules.base import is_announcement
from streamlint.trace import (
    Barrier,
    BeginCapture,
    BufferId,
    Copy,
    Doubt,
    Event,
    EventId,
    HostAccess,
    KeepAlive,
    Launch,
    Op,
    Purpose,
    Record,
    Role,
    Site,
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
    from collections.abc import Callable, Iterable, Sequence

    from streamlint.interp.entries.runs import Run
    from streamlint.source import Span


@frozen()
class OpenEnd:
    """What makes a finding as sure as any other: nobody supplies the order that it misses."""

    stream: Span
    """Where the stream is made that works aside."""
    name: str
    work: Span
    function: str
    """Where it works, and the function that does."""
    returned: bool
    """Whether the work is left to run after the call; else it begins too early."""
    of_caller: bool = False
    """Whether it works on memory that the caller gave: who had that before may wait in a way of its own."""


@frozen()
class TwoStreams:
    """What makes a finding surer: the stream that an object was given is not the current one."""

    owner: str
    name: str
    """As in ``Stream.name``: ``0:stream`` is an argument of the constructor."""


@frozen()
class Unawaited:
    """What makes a finding at all: nobody waits for the events recorded behind what is handed out.

    ``out = x.to("cpu", non_blocking=True); self.done.record(); return out``: who handed the copy out meant
    it to be waited for by that event. Where nothing is recorded, its reader may know another way, but for who
    gets ``out.numpy()``.
    """

    work: Span
    name: str = ""
    """The stream that works, if other code may wait for that by its name."""
    by_host: bool = False
    """Whether the host goes on in another call: what only makes streams wait orders nothing for that ..."""
    ended_by: frozenset[str] = frozenset()
    """... nor what these methods wait for, after which the object is used no more."""
    in_array: bool = False
    """Whether it is handed out as an array of the host's, whose reader knows no way to wait."""


Fact: TypeAlias = OpenEnd | TwoStreams | Unawaited


@frozen(eq=False)
class _Queue:
    """What one path queued on one stream, in order."""

    work: list[Site] = field(default_factory=list)
    first: dict[Span, int] = field(default_factory=dict)
    """How much was queued before a place queued there first."""
    records: list[tuple[Event, int]] = field(default_factory=list)
    """Events that somebody may wait for who is not seen, and how much was queued before each record."""

    def add(self, at: Site) -> None:
        self.first.setdefault(at.span, len(self.work))
        self.work.append(at)


@dataclass(slots=True)
class Ends:
    """Streams by the place where they are made, work and waits by their own."""

    forked: set[Span] = field(default_factory=set)
    """Streams that wait for other work somewhere, or may do so in unseen code ..."""
    joined: set[Span] = field(default_factory=set)
    """... and those whose work somebody waits for."""
    waited: set[Span] = field(default_factory=set)
    """Work that somebody waits for, or that unseen code may wait for, or whose result a caller uses on the
    same stream."""
    queues: dict[Span, list[_Queue]] = field(default_factory=dict)
    """What was queued on a stream where work stands: the events recorded behind it, somebody may wait for."""
    finished: dict[Span, set[str]] = field(default_factory=dict)
    """The calls from outside in which the host waits for work, or a stream for that of another one than the
    current: who has that may wait for it on the host."""
    awaited: set[Span] = field(default_factory=set)
    """Where the events are made that somebody waits for, or asks, on some path."""
    ran: dict[Span, dict[_Queue, int]] = field(default_factory=dict)
    """Waits and records that some path came by, with how much was queued on the stream of interest."""

    apart: set[TwoStreams] = field(default_factory=set)
    """Streams given to objects that wait for the current one somewhere, or are waited for by it, or get
    memory of it to keep."""

    def add(
        self, traces: Iterable[Trace], owner: str, called_in: Callable[[int], str] = lambda _: ""
    ) -> None:
        """``called_in`` has the method that a call from outside is of."""
        for trace in traces:
            _Reader(self, trace, owner, called_in).read()

    def show(self, fact: Fact, may_be_awaited: Callable[[Event], bool]) -> bool:
        """Whether no path of the module supplies the order that an end misses, or two streams are two."""
        match fact:
            case TwoStreams():
                return fact in self.apart
            case Unawaited(work, by_host=True, ended_by=ended_by):
                waiting = self.finished.get(work, set()) - ended_by
                announced = bool(self.events_behind(work))
                return announced and not waiting and not self._is_awaited(work, may_be_awaited)
            case Unawaited(work, in_array=True):
                return self._is_left(work, may_be_awaited)
            case Unawaited(work):
                return bool(self.events_behind(work)) and self._is_left(work, may_be_awaited)
            case OpenEnd(returned=True, work=work):
                # Work that is left running needs no more than that.
                announced = fact.of_caller and bool(self.events_behind(work))
                return not announced and self._is_left(work, may_be_awaited)
            case OpenEnd(stream=stream):
                # To begin too early is a mistake only where the module joins the stream: else both ends may
                # be somebody else's.
                return stream in self.joined and stream not in self.forked
            case _:
                assert_never(fact)

    def events_behind(self, work: Span) -> list[Event]:
        """The events that paths record behind some work, which who is not seen may wait for."""
        return [
            event
            for queue in self.queues.get(work, ())
            for event, count in queue.records
            if queue.first[work] < count
        ]

    def _is_left(self, work: Span, may_be_awaited: Callable[[Event], bool]) -> bool:
        return work not in self.waited and not self._is_awaited(work, may_be_awaited)

    def _is_awaited(self, work: Span, may_be_awaited: Callable[[Event], bool]) -> bool:
        return any(event.span in self.awaited or may_be_awaited(event) for event in self.events_behind(work))

    def was_judged(self, end: OpenEnd | Unawaited, place: Span) -> bool:
        """Whether some path came by a wait or record after the work, so that it is known what it orders."""
        queues = self.ran.get(place, {})
        return any(queue.first.get(end.work, count) < count for queue, count in queues.items())


@dataclass(slots=True)
class _Reader:
    """Reads one trace from its beginning: who waits for what that was queued so far."""

    ends: Ends
    trace: Trace
    owner: str
    called_in: Callable[[int], str]
    queued: dict[StreamId, _Queue] = field(default_factory=dict)
    settled: dict[StreamId, int] = field(default_factory=dict)
    """How much of what a stream was given somebody has waited for ..."""
    late: dict[StreamId, list[int]] = field(default_factory=dict)
    """... what of that its consumer had used before, so that others may have waited for it ..."""
    finished: dict[StreamId, int] = field(default_factory=dict)
    """... and how much may be complete for the host."""
    records: dict[EventId, tuple[StreamId, int]] = field(default_factory=dict)
    """The stream of an event's last record, and how much was queued there."""
    wrote: dict[BufferId, Launch | Copy] = field(default_factory=dict)
    """What has written some memory last."""
    writing: dict[BufferId, list[tuple[StreamId, int]]] = field(default_factory=dict)
    """All that was queued to write some memory, by its number on its stream ..."""
    consumed: dict[tuple[StreamId, int], Op] = field(default_factory=dict)
    """... and the use, by an unseen consumer, of what it wrote."""
    capturing: set[int] = field(default_factory=set)
    """The calls from outside in which a graph is captured."""

    def read(self) -> None:
        self.capturing.update(op.at.call for op in self.trace.ops if isinstance(op, BeginCapture))
        for op in self.trace.ops:
            if self._is_consumer(op):
                self._consume(op)
            match op:
                case Launch() | Copy():
                    self._add(op)
                    self._used(op)
                case KeepAlive():
                    self._are_two(*(kept_for_another(self.trace, op) or ()))
                case Record():
                    self.records[op.event] = (op.stream, len(self._queue(op.stream).work))
                    self._ran(op.at.span, op.stream)
                    if is_announcement(event := self.trace.events[op.event]):
                        queue = self._queue(op.stream)
                        queue.records.append((event, len(queue.work)))
                case Wait() | SyncEvent():
                    self._ran(op.at.span, self._source(op.event))
                    self._await(op.event, op.at)
                    self._wait(op.event, op.stream if isinstance(op, Wait) else None, op.at)
                case SyncStream():
                    self._ran(op.at.span, op.stream)
                    # losses.item() is called for its answer, and not to let a copy come to its end.
                    self._join(op.stream, op.at, by_host=op.purpose is Purpose.ORDER)
                case SyncDevice(purpose=Purpose.ORDER):
                    for stream in self.trace.streams:
                        self._settle(stream, op.at)
                case Barrier() if Doubt.BUDGET not in op.doubts:
                    # A third call of a function by itself, which no path follows, waits for what its text
                    # waits for: whether that names the stream, is asked apart.
                    self._may_be_ordered(op.streams)
                case _:
                    pass

    def _used(self, op: Launch | Copy) -> None:
        """Who called what has written some memory, and uses it on the same stream, knows where it is written.

        ``pipe.feed_input("rows", frames.next(), cuda_stream=frames.stream)``
        """
        for access in op.accesses:
            made = self.wrote.get(access.buffer) if access.mode.reads else None
            if made is not None and made.stream == op.stream and _is_by_caller(op, made):
                self.ends.waited.add(made.at.span)
            if access.mode.writes:
                self.wrote[access.buffer] = op
                number = len(self._queue(op.stream).work) - 1
                self.writing.setdefault(access.buffer, []).append((op.stream, number))

    def _is_consumer(self, op: Op) -> bool:
        """Whether an unseen consumer uses there what an iterator gives, before he asks for the next one."""
        return op.role is Role.AFTER_YIELD or (
            op.role is Role.AFTER_CALL and self.called_in(op.at.call) == _NEXT
        )

    def _consume(self, use: Op) -> None:
        for access in use.accesses if isinstance(use, (Launch, HostAccess)) else ():
            for work in self.writing.get(access.buffer, ()):
                self.consumed.setdefault(work, use)

    def _add(self, op: Launch | Copy) -> None:
        queue = self._queue(op.stream)
        if op.at.span not in queue.first:
            self.ends.queues.setdefault(op.at.span, []).append(queue)
        queue.add(op.at)

    def _await(self, event: EventId, at: Site) -> None:
        source, count = self.records.get(event, (None, 0))
        last = self.consumed.get((source, count - 1)) if source is not None else None
        made = self.trace.events[event].span
        if made is not None and not self._is_too_late(at, last):
            self.ends.awaited.add(made)

    def _queue(self, stream: StreamId) -> _Queue:
        return self.queued.setdefault(stream, _Queue())

    def _source(self, event: EventId) -> StreamId | None:
        return self.records[event][0] if event in self.records else None

    def _ran(self, place: Span, stream: StreamId | None) -> None:
        if stream is not None:
            queue = self._queue(stream)
            self.ends.ran.setdefault(place, {})[queue] = len(queue.work)

    def _wait(self, event: EventId, waiting: StreamId | None, at: Site) -> None:
        source, count = self.records.get(event, (None, 0))
        if waiting is not None and source is not None and self.trace.events[event].span is not None:
            # Nobody makes a stream wait for itself.
            self._are_two(source, waiting)
        if waiting is not None and source != waiting:
            self._note(self.ends.forked, waiting)
        if source is not None and source != waiting:
            # side.wait_stream(torch.cuda.current_stream()) begins something, and ends nothing for the host.
            is_fork = waiting is not None and self.trace.streams[source].kind is StreamKind.CURRENT
            self._join(source, at, count, by_host=not is_fork)

    def _are_two(self, *told_apart: StreamId) -> None:
        for given, other in permutations([self.trace.streams[stream] for stream in told_apart], 2):
            if is_given(given) and other.kind is StreamKind.CURRENT:
                self.ends.apart.add(TwoStreams(self.owner, given.name))

    def _may_be_ordered(self, streams: Iterable[StreamId]) -> None:
        for stream in streams:
            self._settle(stream)
            self._note(self.ends.forked, stream)

    def _join(self, stream: StreamId, at: Site, count: int | None = None, *, by_host: bool = True) -> None:
        self._note(self.ends.joined, stream)
        self._settle(stream, at, count, by_host=by_host)

    def _settle(
        self, stream: StreamId, at: Site | None = None, count: int | None = None, *, by_host: bool = True
    ) -> None:
        """Somebody waits for what a stream was given so far; without ``at``, no place that waits is known.

        A call that captures waits for what it has queued itself: ``if self.shape != x.shape:
        torch.cuda.synchronize()``, and a new graph. What the last one returned, somebody has used by then.
        """
        if at is not None and at.call in self.capturing:
            self._settle_own(stream, at, count, by_host=by_host)
            return
        work = self._queue(stream).work
        last = len(work) if count is None else count
        late = self.late.setdefault(stream, [])
        before = [number for number in late if number < last]
        for number in (*before, *self._waited_for(self.settled, stream, at, count)):
            if at is None or not self._is_too_late(at, self.consumed.get((stream, number))):
                self.ends.waited.add(work[number].span)
            elif number not in before:
                late.append(number)
        if by_host:
            call = self.called_in(at.call) if at is not None else ""
            for number in self._waited_for(self.finished, stream, at, count):
                self.ends.finished.setdefault(work[number].span, set()).add(call)

    def _settle_own(self, stream: StreamId, at: Site, count: int | None, *, by_host: bool) -> None:
        """The same of what the call that waits has queued; that of others is left for others to wait for."""
        own = [one.span for one in self._queue(stream).work[:count] if one.call == at.call]
        self.ends.waited.update(own)
        for span in own if by_host else ():
            self.ends.finished.setdefault(span, set()).add(self.called_in(at.call))

    def _waited_for(
        self, before: dict[StreamId, int], stream: StreamId, at: Site | None, count: int | None
    ) -> range:
        """What nobody has waited for before, of what a stream was given."""
        first = before.get(stream, 0)
        last = len(self._queue(stream).work) if count is None else count
        if last <= first:
            return range(0)
        before[stream] = last
        work = self._queue(stream).work[first:last]
        return range(first + (_begun_again(work, at) if at is not None else 0), last)

    def _is_too_late(self, wait: Site, use: Op | None) -> bool:
        """Whether what a wait is for has been used by then, without one.

        ``current.wait_stream(side)``, then ``with torch.cuda.stream(side): batch = rows.to(device,
        non_blocking=True)`` and ``return batch``, in ``__next__``: the next one waits for this batch, which
        its consumer has used by then. So does a generator that yields it. Who gets what another call
        returns may still wait for it.
        """
        if use is None:
            return False
        if use.role is Role.AFTER_YIELD:
            return wait.call == use.at.call and _place_in(wait, use.at) is not None
        return self.called_in(wait.call) == _NEXT

    def _note(self, places: set[Span], stream: StreamId) -> None:
        span = self.trace.streams[stream].span
        if span is not None:
            places.add(span)


_NEXT = "__next__"


def _begun_again(work: Sequence[Site], wait: Site) -> int:
    """How much of some work an earlier run of a function issued behind a wait that is for other work.

    ``self.page.copy_(row); self.side.synchronize(); return self.page.clone()`` on ``side``: the wait of the
    next call is for its own copy, and by then somebody has used the clone.
    """
    for number in range(len(work) - 1, -1, -1):
        place = _place_in(work[number], wait)
        if place is not None and place > wait.span.line:
            is_own = any((_place_in(one, wait) or wait.span.line) < wait.span.line for one in work[number:])
            return number + 1 if is_own else 0
    return 0


def _place_in(work: Site, wait: Site) -> int | None:
    """The line at which the function that waits issued some work, itself or by a call; None if others did."""
    depth = len(wait.calls)
    if work.calls[:depth] != wait.calls:
        return None
    place = (*work.calls, work.span)[depth]
    inside = depth < len(work.calls) or work.function == wait.function
    return place.line if inside and place.path == wait.span.path else None


def _is_by_caller(op: Op, earlier: Op) -> bool:
    """Whether a function issues an op that has called that of the earlier one, and has its result by now."""
    depth = len(op.at.calls)
    return depth < len(earlier.at.calls) and earlier.at.calls[:depth] == op.at.calls


def is_given(stream: Stream) -> bool:
    """Whether the constructor of an object got the stream, or other code has put it there since."""
    if stream.kind is not StreamKind.UNKNOWN:
        return False
    return stream.passed.at_construction if stream.passed is not None else stream.put_there


@dataclass(slots=True)
class Facts:
    """What the entries of a module show together."""

    recorded: set[Span] = field(default_factory=set)
    """Where the events were made that some path records, or may have recorded by unseen code, ..."""
    shown_recorded: set[Span] = field(default_factory=set)
    """... those of which it shows that ..."""
    records: set[Span] = field(default_factory=set)
    """... and where it records them."""
    unrecorded: dict[Span, Event] = field(default_factory=dict)
    """Events that some path makes, hands to no caller, and never records, by where they are made."""
    needed: set[Span] = field(default_factory=set)
    """Waits that order something on some path."""
    ends: Ends = field(default_factory=Ends)

    def add(self, run: Run) -> None:
        """Takes in an entry that was run, and judged if ``needed`` is to be known."""
        for trace in run.traces:
            for op in trace.ops:
                if not isinstance(op, Record):
                    continue
                self.records.add(op.at.span)
                if (made := trace.events[op.event].span) is not None:
                    self.recorded.add(made)
                    if not op.doubts:
                        self.shown_recorded.add(made)
            for event in trace.events.values():
                if event.span is not None and event.is_named and not (event.handed or event.earlier):
                    self.unrecorded.setdefault(event.span, event)
        self.ends.add(run.traces, run.entry.owner, run.entry.called_in)
        self.needed |= run.needed
