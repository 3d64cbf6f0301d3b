"""The part of a finding's trace that matters: what a reproducer has to replay."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import frozen
from streamlint.judging.judge import judge
from streamlint.order.conflicts import ConflictKind
from streamlint.order.hb import Verdict
from streamlint.pictures.focus import left_open
from streamlint.trace import (
    MAIN_LANE,
    Alloc,
    BeginCapture,
    Copy,
    CudaCall,
    DestroyEvent,
    Free,
    HostAccess,
    Launch,
    OpId,
    Record,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from streamlint.finding import Finding, Occurrence
    from streamlint.order.conflicts import Conflict
    from streamlint.order.hb import HappensBefore
    from streamlint.rules.base import Judged
    from streamlint.trace import BufferId, EventId, Op, StreamId, Trace

Work: TypeAlias = Launch | Copy | HostAccess


class NothingToReplayError(Exception):
    """The finding cannot be replayed by two operations on streams; the text says why."""


class Harm(Enum):
    """What goes wrong; the first three are those of ``ConflictKind``."""

    READ_AFTER_WRITE = ConflictKind.READ_AFTER_WRITE.value
    WRITE_AFTER_READ = ConflictKind.WRITE_AFTER_READ.value
    WRITE_AFTER_WRITE = ConflictKind.WRITE_AFTER_WRITE.value
    FREED_WHILE_READ = "freed while it is read"
    FREED_WHILE_WRITTEN = "freed while it is written"


@frozen()
class Slice:
    """Two operations that nothing orders, and what else takes part in (not) ordering them.

    ``ops`` are in issue order, and hold ``earlier`` and ``later``. With a lifetime's ``harm``,
    ``later`` is the free, or the allocation that gets the memory.
    """

    trace: Trace
    earlier: OpId
    later: OpId
    buffer: BufferId
    harm: Harm
    ops: tuple[OpId, ...]

    def op(self, number: OpId) -> Op:
        return self.trace.ops[number]


def slice_of(finding: Finding) -> Slice:
    """:raises NothingToReplayError: it is about no pair of operations, or needs more than streams."""
    evidence = finding.evidence
    if evidence is None:
        raise NothingToReplayError("the finding has no trace")
    trace = evidence.trace
    judged = judge(trace)
    earlier, later, buffer, harm = _pair(evidence, judged)
    ops = _around(trace, judged.hb, earlier, later, buffer)
    _require_plain(trace, ops, earlier)
    return Slice(trace, earlier, later, buffer, harm, ops)


def _pair(evidence: Occurrence, judged: Judged) -> tuple[OpId, OpId, BufferId, Harm]:
    trace, earlier, later, buffer = evidence.trace, evidence.earlier, evidence.later, evidence.buffer
    if isinstance(trace.ops[later], Alloc | Free) and earlier != later and buffer is not None:
        first = trace.ops[earlier]
        if not isinstance(first, Launch | Copy):
            raise NothingToReplayError("the use that the free does not wait for is no device work")
        writes = any(access.buffer == buffer and access.mode.writes for access in first.accesses)
        return earlier, later, buffer, Harm.FREED_WHILE_WRITTEN if writes else Harm.FREED_WHILE_READ
    conflict = next((each for each in judged.conflicts if _is_about(each, evidence)), None)
    if conflict is None and earlier == later:
        conflict = left_open(judged, later)  # the pair that a wait should order which orders nothing
    if conflict is None:
        raise NothingToReplayError("it is about no two uses of one memory")
    if stream_of(trace.ops[conflict.earlier]) is None:
        raise NothingToReplayError("the earlier operation is no device work")
    return conflict.earlier, conflict.later, conflict.buffer, Harm(conflict.kind.value)


def _is_about(conflict: Conflict, evidence: Occurrence) -> bool:
    return (conflict.earlier, conflict.later) == (evidence.earlier, evidence.later) and (
        evidence.buffer in (None, conflict.buffer)
    )


def stream_of(op: Op) -> StreamId | None:
    match op:
        case Launch() | Copy() | Record() | Wait() | SyncStream() | Alloc() | Free() | CudaCall():
            return op.stream
        case _:
            return None


def _around(
    trace: Trace, order: HappensBefore, earlier: OpId, later: OpId, buffer: BufferId
) -> tuple[OpId, ...]:
    """The pair, the uses of its memory that come before it, and all waits of its streams.

    What was complete when the host last waited for the whole device is left out, but for events
    that were recorded before and are waited for after.
    """
    start = max((i for i in range(earlier) if isinstance(trace.ops[i], SyncDevice)), default=-1)
    chosen = {earlier, later}
    for number in range(start + 1, later):
        op, i = trace.ops[number], OpId(number)
        if (
            isinstance(op, Launch | Copy | HostAccess)
            and _touches(op, buffer)
            and _before(order, i, earlier, later)
        ) or (isinstance(op, Free) and op.buffer == buffer and earlier < number):
            chosen.add(i)
    streams = {s for s in (stream_of(trace.ops[i]) for i in chosen) if s is not None}
    known = -1
    while known != len(chosen):
        known = len(chosen)
        for number in range(later):
            if _takes_part(trace, OpId(number), streams, _events(trace, chosen), start):
                chosen.add(OpId(number))
                stream = stream_of(trace.ops[number])
                streams |= set() if stream is None else {stream}
    return tuple(sorted(chosen))


def _touches(op: Work, buffer: BufferId) -> bool:
    return any(access.buffer == buffer for access in op.accesses)


def _before(order: HappensBefore, op: OpId, earlier: OpId, later: OpId) -> bool:
    return any(order.ordered(op, end).verdict is Verdict.YES for end in (earlier, later))


def _events(trace: Trace, chosen: set[OpId]) -> set[EventId]:
    return {op.event for op in (trace.ops[i] for i in chosen) if isinstance(op, Wait | SyncEvent | Record)}


def _takes_part(trace: Trace, number: OpId, streams: set[StreamId], events: set[EventId], start: int) -> bool:
    op = trace.ops[number]
    match op:
        case Wait() | SyncStream():
            return number > start and op.stream in streams
        case Record():
            return op.event in events or (number > start and op.stream in streams)
        case SyncEvent() | DestroyEvent():
            return number > start and op.event in events
        case CudaCall():
            return number > start and (op.stream in streams or op.event in events)
        case _:
            return False


def _require_plain(trace: Trace, ops: tuple[OpId, ...], earlier: OpId) -> None:
    """:raises NothingToReplayError: the program would need a second GPU, threads, callbacks or a graph."""
    chosen = [trace.ops[i] for i in ops]
    if any(op.lane != MAIN_LANE for op in chosen):
        raise NothingToReplayError("host callbacks and threads are not replayed")
    if any(isinstance(op, BeginCapture) for op in trace.ops[: ops[-1]]):
        raise NothingToReplayError("work that is captured into a graph is not replayed")
    destroyed: set[EventId] = set()
    for op in chosen:
        if isinstance(op, Wait | SyncEvent | Record) and op.event in destroyed:
            raise NothingToReplayError("it uses an event that was destroyed")
        destroyed |= {op.event} if isinstance(op, DestroyEvent) else set()
    devices = {trace.streams[s].device for s in map(stream_of, chosen) if s is not None}
    # Between the two a device was synchronized, and still they are not ordered: it was another one.
    if len(devices) > 1 or any(isinstance(op, SyncDevice) for op in trace.ops[earlier : ops[-1]]):
        raise NothingToReplayError("it needs two GPUs")
