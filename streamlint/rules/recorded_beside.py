"""Waits for what another thread records, where nothing has told that it was recorded.

``self.jobs.put(job)``, then ``stream.wait_event(job.done)``: the thread that takes the job records the event
sooner or later. The trace has what a thread does where it starts, so the wait sees the record there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.rules.base import Judged, Note, Problem, stream_of
from streamlint.trace import (
    Barrier,
    BufferId,
    Copy,
    Doubt,
    HostAccess,
    HostSignal,
    HostWait,
    Join,
    Launch,
    MonitorId,
    MonitorKind,
    Op,
    OpId,
    Record,
    SyncEvent,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.source import Span


def problems(judged: Judged) -> Iterator[Problem]:
    """One for each wait that is told of the record on no turn, and orders what the thread has worked on."""
    told: set[Span] = set()
    early: dict[Span, Problem] = {}
    for number in judged.numbers(Wait, SyncEvent) if judged.index.starts else ():
        record = _of_another_thread(judged, number)
        if record is None:
            continue
        place = judged.op(number).at.span
        if _is_told(judged, record, number):
            told.add(place)
        elif place not in early and _shares_memory(judged, record, number):
            early[place] = _problem(judged, record, number)
    yield from (problem for place, problem in early.items() if place not in told)


def _problem(judged: Judged, record: OpId, number: OpId) -> Problem:
    wait, recorded = judged.op(number), judged.op(record)
    assert isinstance(wait, (Wait, SyncEvent))
    name = judged.seen_from(number, record).event_name(wait.event)
    between_calls = {Doubt.CALLS} if wait.at.call != recorded.at.call else set[Doubt]()
    return Problem(
        later=number,
        message=f"{name} may not have been recorded when it is waited for: another thread records it",
        label="waits for nothing if it comes first",
        help=f"let that thread say by a flag or a queue that it has recorded {name}, and wait for that first",
        notes=(Note(recorded.at.span, "recorded by another thread here"),),
        # Where the thread is in time the wait is right: no single order of the two is known.
        doubts=wait.doubts | recorded.doubts | between_calls | {Doubt.PATH},
    )


def _of_another_thread(judged: Judged, number: OpId) -> OpId | None:
    """The record that a wait sees, if a thread has made it, for an event that it got from elsewhere.

    Whoever has an event that the thread made got it from there.
    """
    wait, record = judged.op(number), judged.hb.record_seen_by(number)
    if record is None or not isinstance(wait, (Wait, SyncEvent)):
        return None
    event, lane = judged.trace.events[wait.event], judged.op(record).lane
    beside = lane != wait.lane and lane in judged.index.starts and event.lane != lane
    return record if beside and event.is_named else None


def _is_told(judged: Judged, record: OpId, number: OpId) -> bool:
    """Whether the thread that waits has waited, since the record, for anything that others did after that.

    Also in a call that is not seen, and for a lock: ``with self.lock: stream.wait_event(slot.free)`` waits
    for the last use, whichever that is.
    """
    lane, given = judged.op(number).lane, set[MonitorId]()
    if judged.trace.calls_unseen(record, number):
        return True
    for between in judged.numbers(HostSignal, HostWait, Join, Barrier, first=record + 1, before=number):
        op = judged.op(between)
        if isinstance(op, HostSignal) and op.lane != lane:
            given.add(op.monitor)
        elif isinstance(op, HostWait) and op.lane == lane:
            kind = judged.trace.monitors[op.monitor].kind
            if kind in (MonitorKind.LOCK, MonitorKind.SEMAPHORE) or op.monitor in given:
                return True
        elif op.lane == lane and (isinstance(op, Join) or (isinstance(op, Barrier) and op.streams)):
            return True
    return False


def _shares_memory(judged: Judged, record: OpId, number: OpId) -> bool:
    """Whether what waits uses memory that the thread has used before the record, one of them to write it."""
    recorded, wait = judged.op(record), judged.op(number)
    assert isinstance(recorded, Record)
    before: dict[BufferId, bool] = {}
    for op in map(judged.op, judged.numbers(Launch, Copy, before=record)):
        if op.lane == recorded.lane and stream_of(op) == recorded.stream:
            for buffer, writes in _uses(op):
                before[buffer] = before.get(buffer, False) or writes
    waiting = stream_of(wait)
    for op in map(judged.op, judged.numbers(Launch, Copy, HostAccess, first=number + 1)):
        waits = op.lane == wait.lane and (waiting is None or stream_of(op) == waiting)
        if waits and any(buffer in before and (writes or before[buffer]) for buffer, writes in _uses(op)):
            return True
    return False


def _uses(op: Op) -> Iterator[tuple[BufferId, bool]]:
    if isinstance(op, (Launch, Copy, HostAccess)):
        yield from ((access.buffer, access.mode.writes) for access in op.accesses)
