"""Ends of calls that were forgotten: a wait for the stream itself, and work that nobody waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.judging.owners import is_argument, is_own, plain_name
from streamlint.rules.base import is_announcement, is_handed_out, is_return, part, stream_of
from streamlint.trace import Copy, Launch, OpId, Record, SyncEvent, SyncStream, Wait

if TYPE_CHECKING:
    from streamlint.interp.entries.runs import Entry
    from streamlint.rules.base import Judged, Problem
    from streamlint.trace import Op, StreamId


def waits_for_itself(judged: Judged, problem: Problem, used_on: StreamId) -> bool:
    """Whether the only stream that another one waits for before the use is that one itself.

    ``with torch.cuda.stream(side): side.wait_stream(torch.cuda.current_stream())``
    """
    assert problem.earlier is not None
    waits = part(judged.index.waits.get(used_on, []), first=problem.earlier + 1, before=problem.later)
    return bool(waits) and all(source(judged, wait) == used_on for wait in waits)


def forgot_the_end(judged: Judged, problem: Problem, entry: Entry) -> bool:
    """Whether the entry began work aside for its own use, and returns the result without waiting for it.

    It made the side stream wait for the current one, so the overlap is its own idea. The stream is neither an
    argument nor handed back: its caller cannot wait for it.
    """
    assert problem.earlier is not None
    made = judged.op(problem.earlier)
    side, current = stream_of(made), stream_of(judged.op(OpId(0)))
    if side is None or not is_own(judged.trace, side, entry):
        return False
    waits = part(judged.index.waits.get(side, []), before=problem.earlier)
    # What the constructor let the stream wait for says nothing of what later calls begin.
    begun = any(source(judged, wait) == current and judged.op(wait).at.call == made.at.call for wait in waits)
    return begun and _nobody_waits(judged, problem, side, entry)


def forgot_one_end(judged: Judged, problem: Problem, entry: Entry) -> bool:
    """Whether a call returns what a stream still writes, and has waited for other such work.

    ``dq, dk = exchange(dq, dk, ctx.side)``, which ends with ``current.wait_stream(side)``, and a third
    gradient from the same stream, for which nobody waits: its consumer is taken to use it at once. Of a
    stream that is an argument its caller knows. A generator may wait behind its ``yield``, too: the consumer
    of the first batch has used that by then.
    """
    assert problem.earlier is not None
    if entry.callers_cut or entry.is_step:
        return False
    made, end = judged.op(problem.earlier), judged.op(problem.later)
    side, user = stream_of(made), stream_of(end)
    if side is None or user is None or is_argument(judged.trace.streams[side]) or not is_handed_out(end):
        return False
    before = problem.earlier if is_return(end) else None
    joins_of = part(judged.index.waits_for.get((user, side), []), before=before)
    return any(
        judged.op(wait).at.call == made.at.call and _has_work(judged, wait, side) for wait in joins_of
    ) and _nobody_waits(judged, problem, side, entry)


def _has_work(judged: Judged, wait: OpId, side: StreamId) -> bool:
    """Whether a wait is for work that the same call has queued."""
    work = map(judged.op, part(judged.index.of_stream.get(side, []), before=judged.hb.record_seen_by(wait)))
    return any(isinstance(op, (Launch, Copy)) and op.at.call == judged.op(wait).at.call for op in work)


def _nobody_waits(judged: Judged, problem: Problem, side: StreamId, entry: Entry) -> bool:
    """Whether nobody is there who may wait for what a call has left on a stream.

    Not a consumer of an event, if none is recorded behind the work; and no other function, if none names the
    stream and a wait without using the stream itself.
    """
    assert problem.earlier is not None
    made = judged.op(problem.earlier)
    if has_handle(made) or made.at.call != judged.op(problem.later).at.call:
        return False
    records = part(judged.index.records.get(side, []), first=problem.earlier, before=problem.later)
    announced = any(
        isinstance(op, Record) and is_announcement(judged.trace.events[op.event])
        for op in map(judged.op, records)
    )
    behind = _streams_behind(judged, problem, side)
    names = {plain_name(judged.trace.streams[stream]) for stream in behind}
    if announced or not names.isdisjoint(entry.joined_elsewhere | entry.known_to_makers):
        return False
    # reduce(), then finish(), which waits for the stream: the end of the first was not forgotten. What a
    # generator waits for when it goes on, its consumer has used. A thread that is given an event to wait for
    # tells others when it has.
    end = judged.op(problem.later)
    waits = judged.numbers(SyncEvent, first=problem.earlier)
    if any(judged.op(number).lane != made.lane and _waits_for(judged, number, side) for number in waits):
        return False
    after = [
        number
        for number in judged.numbers(SyncStream, Wait, SyncEvent, first=problem.later)
        if is_return(end) or judged.op(number).at.call != end.at.call
    ]
    return not any(_waits_for(judged, number, side) for number in after)


def _streams_behind(judged: Judged, problem: Problem, side: StreamId) -> set[StreamId]:
    """The stream, and those that wait for it behind the work before the call returns.

    ``self.sending.wait_stream(self.side)``, and in another method ``current.wait_stream(self.sending)``.
    """
    assert problem.earlier is not None
    found = {side}
    for number in judged.numbers(Wait, first=problem.earlier + 1, before=problem.later):
        record, waiting = judged.hb.record_seen_by(number), stream_of(judged.op(number))
        if record is None or waiting is None or record < problem.earlier:
            continue
        if stream_of(judged.op(record)) in found:
            found.add(waiting)
    return found


def has_handle(op: Op) -> bool:
    """``self.works.append(dist.all_reduce(x, async_op=True))``: the handle is waited for, not the stream."""
    return isinstance(op, Launch) and op.completes is not None


def _waits_for(judged: Judged, number: int, side: StreamId) -> bool:
    """Whether an op makes the host or another stream wait for work of ``side``."""
    match judged.op(OpId(number)):
        case SyncStream(stream=stream):
            return stream == side
        case Wait(stream=stream):
            return stream != side and source(judged, OpId(number)) == side
        case SyncEvent():
            return source(judged, OpId(number)) == side
        case _:
            return False


def source(judged: Judged, wait: OpId) -> StreamId | None:
    """The stream that a wait waits for; None if its event holds no record."""
    record = judged.hb.record_seen_by(wait)
    return stream_of(judged.op(record)) if record is not None else None
