"""The stream captures of a trace: which streams are inside, what is joined, what is refused.

Measured (docs/semantics): whatever the mode, a synchronization or query of a capturing stream, of an
event recorded in the capture, or of the device is refused. Unless the mode is relaxed, so are those of
all other streams and events, and allocations and frees.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import frozen
from streamlint.trace import (
    Alloc,
    AllocKind,
    Barrier,
    BeginCapture,
    Callback,
    CaptureMode,
    Copy,
    CudaCall,
    Doubt,
    EndCapture,
    EventId,
    Launch,
    Op,
    OpId,
    Record,
    Role,
    StreamId,
    StreamKind,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.rules.base import Judged
    from streamlint.source import Span

Doubts: TypeAlias = frozenset[Doubt]
_NONE: Doubts = frozenset()
_UNSEEN = frozenset({StreamKind.UNKNOWN, StreamKind.CURRENT})


@frozen()
class Refused:
    """An op that CUDA does not permit during the capture."""

    op: OpId
    doubts: Doubts


@frozen()
class OutsideWait:
    """A captured stream waits for a record that is not part of the capture."""

    op: OpId
    record: OpId
    doubts: Doubts


@frozen()
class Unjoined:
    """Captured work of a side stream that the capturing stream does not wait for before the end."""

    op: OpId
    fork: OpId
    end: OpId
    doubts: Doubts


@frozen()
class Elsewhere:
    """Work queued between the begin and the end of a capture, on a stream that is not part of it."""

    op: OpId
    doubts: Doubts


@dataclass(slots=True)
class _Member:
    """A stream in the capture."""

    fork: OpId | None
    """The wait that took it in."""
    doubts: Doubts = _NONE
    work: list[OpId] = field(default_factory=list)
    knows: dict[StreamId, int] = field(default_factory=dict)
    """How much of each stream's work comes before what is queued here next."""


@dataclass(slots=True)
class Capture:
    """One capture, from its begin to its end, or as far as the call that began it goes."""

    begin: OpId
    stream: StreamId
    mode: CaptureMode
    end: OpId | None = None
    refused: list[Refused] = field(default_factory=list)
    outside_waits: list[OutsideWait] = field(default_factory=list)
    unjoined: list[Unjoined] = field(default_factory=list)
    elsewhere: list[Elsewhere] = field(default_factory=list)
    captured: set[Span] = field(default_factory=set)
    """Where work is queued that is part of the capture."""
    inner_waits: set[Span] = field(default_factory=set)
    """Where streams wait for records of the capture."""
    joined: set[Span] = field(default_factory=set)
    """Where work of side streams is queued that is joined before the end."""
    _members: dict[StreamId, _Member] = field(default_factory=dict)
    _events: dict[EventId, tuple[dict[StreamId, int], Doubts]] = field(default_factory=dict)
    _maybe: set[StreamId] = field(default_factory=set)
    """Streams that waited for an event of unseen code, and may have joined the capture by that."""
    _escapes: dict[StreamId, OpId] = field(default_factory=dict)
    """The last unresolved call that received a stream, and may join it."""

    def __post_init__(self) -> None:
        self._members[self.stream] = _Member(None)

    @property
    def relaxed(self) -> bool:
        return self.mode is CaptureMode.RELAXED

    def add(self, judged: Judged, i: OpId, op: Op) -> None:
        match op:
            case Launch(stream=stream) | Copy(stream=stream) | Callback(stream=stream):
                member = self._members.get(stream)
                if member is None:
                    self._runs_now(judged, i, op)
                else:
                    self.captured.add(op.at.span)
                    member.work.append(i)
                    member.knows[stream] = len(member.work)
            case Record(stream=stream, event=event):
                member = self._members.get(stream)
                if member is None:
                    self._events.pop(event, None)
                else:
                    self._events[event] = (dict(member.knows), member.doubts | op.doubts)
            case Wait():
                self._wait(judged, i, op)
            case Barrier(streams=streams):
                self._escapes |= dict.fromkeys(streams, i)
            case SyncStream() | SyncEvent() | SyncDevice() | CudaCall() | Alloc():
                doubts = self._refuses(judged, op)
                if doubts is not None:
                    self.refused.append(Refused(i, doubts))
            case _:
                pass

    def close(self, judged: Judged, i: OpId, op: EndCapture) -> None:
        self.end = i
        joined = self._members[self.stream].knows
        for stream, member in self._members.items():
            left = member.work[joined.get(stream, 0) :]
            self.joined |= {judged.op(work).at.span for work in member.work[: joined.get(stream, 0)]}
            if stream == self.stream or not left or member.fork is None:
                continue
            doubts = member.doubts | op.doubts
            if max(self._escapes.get(s, -1) for s in (stream, self.stream)) > left[0]:
                doubts |= {Doubt.ESCAPE}
            self.unjoined.append(Unjoined(left[0], member.fork, i, doubts))

    def _wait(self, judged: Judged, i: OpId, op: Wait) -> None:
        held = self._events.get(op.event)
        member = self._members.get(op.stream)
        if held is None:
            record = judged.hb.record_seen_by(i)
            if member is None:
                self._may_join(judged, op.stream, record)
            elif record is not None:
                doubts = op.doubts | member.doubts | self._outside_doubts(judged, op, record)
                self.outside_waits.append(OutsideWait(i, record, doubts))
            return
        self.inner_waits.add(op.at.span)
        knows, doubts = held
        if member is None:
            member = self._members[op.stream] = _Member(i)
        if op.stream != self.stream:
            member.fork = i
        member.doubts |= doubts | op.doubts
        for stream, count in knows.items():
            member.knows[stream] = max(count, member.knows.get(stream, 0))

    def _may_join(self, judged: Judged, stream: StreamId, record: OpId | None) -> None:
        seen = judged.op(record) if record is not None and record > self.begin else None
        if record is None or (isinstance(seen, Record) and seen.stream in self._maybe):
            self._maybe.add(stream)

    def _runs_now(self, judged: Judged, i: OpId, op: Launch | Copy | Callback) -> None:
        """Work on another stream. Only what uses memory counts: nothing else is missing from the graph."""
        if op.role is not Role.CODE or isinstance(op, Callback) or not op.accesses:
            return
        doubts = set(op.doubts)
        stream = judged.trace.streams[op.stream]
        kinds = {stream.kind, judged.trace.streams[self.stream].kind}
        # What CuPy launches in the block of torch.cuda.graph(graph), on the stream that is current for CuPy:
        # a stream that is made there was current nowhere when the call began.
        apart = stream.kind is StreamKind.CURRENT and _is_made_for(judged, self)
        if kinds & _UNSEEN and not apart:
            doubts.add(Doubt.SAME_STREAM)
        if op.stream in self._maybe or op.stream in self._escapes:
            # overlapped(x, stream=side): unseen code may have taken the side stream into the capture.
            doubts.add(Doubt.ESCAPE)
        self.elsewhere.append(Elsewhere(i, frozenset(doubts)))

    def _outside_doubts(self, judged: Judged, wait: Wait, number: OpId) -> Doubts:
        record = judged.op(number)
        assert isinstance(record, Record)
        doubts = set(record.doubts)
        kinds = {judged.trace.streams[stream].kind for stream in (record.stream, self.stream)}
        if number > self.begin and kinds & _UNSEEN:
            doubts.add(Doubt.SAME_STREAM)
        if self._escapes or (number > self.begin and record.stream in self._maybe):
            # overlapped(x, stream=side): unseen code may have made the side stream wait for the capture.
            doubts.add(Doubt.ESCAPE)
        if record.at.call != wait.at.call:
            doubts.add(Doubt.CALLS)
            if record.at.call:
                # Recorded by another method: whether it runs before the capture is the caller's choice.
                doubts.add(Doubt.SOME_PATHS)
        return frozenset(doubts)

    def _refuses(self, judged: Judged, op: Op) -> Doubts | None:
        """The doubts under which the call is refused; ``None`` if it is permitted."""
        match op:
            case SyncStream(stream=stream):
                return self._refuses_stream(op, stream)
            case SyncEvent(event=event):
                return self._refuses_event(judged, op, event)
            case CudaCall(stream=stream, event=event):
                if stream is not None:
                    return self._refuses_stream(op, stream)
                return self._refuses_event(judged, op, event) if event is not None else None
            case SyncDevice(device=device):
                if device != judged.trace.streams[self.stream].device:
                    return None
                if Doubt.OBSERVED in op.doubts:
                    # cudaFree: whether it waits or not, it is an unsafe call.
                    return None if self.relaxed else op.doubts - {Doubt.OBSERVED}
                return op.doubts
            case Alloc(stream=None):
                return None if self.relaxed or op.kind is AllocKind.CACHED else op.doubts
            case _:
                return None

    def _refuses_stream(self, op: Op, stream: StreamId) -> Doubts | None:
        member = self._members.get(stream)
        if not self.relaxed:
            return op.doubts
        return op.doubts | member.doubts if member is not None else None

    def _refuses_event(self, judged: Judged, op: Op, event: EventId) -> Doubts | None:
        if self.relaxed and event not in self._events:
            return None
        guessed = judged.trace.events[event].span is None
        return op.doubts | {Doubt.ESCAPE} if guessed else op.doubts


def captures(judged: Judged) -> Iterator[Capture]:
    """All captures of a path, in the order in which they begin."""
    trace = judged.trace
    found: list[Capture] = []
    open_: list[Capture] = []
    for number, op in enumerate(trace.ops):
        i = OpId(number)
        open_ = [one for one in open_ if trace.ops[one.begin].at.call == op.at.call]
        match op:
            case BeginCapture():
                found.append(Capture(i, op.stream, op.mode))
                open_.append(found[-1])
            case EndCapture():
                ended = [one for one in open_ if one.stream == op.stream]
                for one in ended:
                    one.close(judged, i, op)
                open_ = [one for one in open_ if one not in ended]
            case _:
                for one in open_:
                    if op.lane == trace.ops[one.begin].lane:
                        one.add(judged, i, op)
    yield from found


def _is_made_for(judged: Judged, capture: Capture) -> bool:
    """Whether a capture makes the stream that it captures: ``with torch.cuda.graph(graph):``"""
    return judged.trace.streams[capture.stream].span == judged.op(capture.begin).at.span
