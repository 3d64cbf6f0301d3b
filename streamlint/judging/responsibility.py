"""Whose business is the order at the two ends of a call: the function's, or its unseen caller's?

What a caller queued on an argument may be pending when the call begins, and it may use the result as soon
as the call returns. A function that works aside and leaves both ends open is a step of its caller's; one that
answers for one end and forgets the other is wrong by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.facts import joins
from streamlint.judging import evidence
from streamlint.order.hb import Verdict
from streamlint.rules.base import (
    Judged,
    Problem,
    is_announcement,
    is_entry,
    is_handed_out,
    is_return,
    part,
    stream_of,
)
from streamlint.trace import (
    Alloc,
    Buffer,
    BufferId,
    Copy,
    Doubt,
    KeepAlive,
    Launch,
    Op,
    OpId,
    Origin,
    Purpose,
    Record,
    Role,
    Stream,
    StreamChoice,
    StreamId,
    StreamKind,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Trace,
    Wait,
)

if TYPE_CHECKING:
    from streamlint.interp.entries.runs import Entry


def answered(judged: Judged, problem: Problem, entry: Entry) -> frozenset[Doubt]:
    """The doubts about unseen callers that do not hold, because the order is the function's own business.

    Callers in the module that were not followed to their end may order what is left open: all doubts stay.
    """
    assert problem.earlier is not None
    if entry.callers_cut:
        return frozenset()
    settled: set[Doubt] = set()
    is_open = is_entry(judged.op(problem.earlier)) and not callers_show(judged, problem, entry)
    if is_open and (entry.of_autograd or _took_responsibility(judged, problem, entry)):
        settled.add(Doubt.ARGUMENT)
    end = judged.op(problem.later)
    if is_handed_out(end) and not entry.is_step and _forgot_the_end(judged, problem, entry):
        settled.add(Doubt.RESULT)
    if _is_handed_on(judged, problem, entry) or _is_filled_again(judged, problem, entry):
        settled.add(Doubt.RESULT)
    return frozenset(settled)


def callers_show(judged: Judged, problem: Problem, entry: Entry) -> bool:
    """Whether what is pending at the entry is seen in other code: ``self.decode(self.forward(x))``."""
    if entry.has_callers:
        return not _is_allocated_here(judged, problem)
    passed = judged.trace.buffers[problem.buffer].passed if problem.buffer is not None else None
    return passed is not None and (entry.called_in(passed.call), passed.name) in entry.arguments_in_sight


def called_with_pending(judged: Judged, problem: Problem, entry: Entry) -> str:
    """The name of the function at whose call something is taken to be pending on an argument; or ""."""
    if (
        problem.earlier is None
        or entry.of_autograd
        or not is_entry(judged.op(problem.earlier))
        or _is_allocated_here(judged, problem)
    ):
        return ""
    if not entry.outside_calls:
        return entry.label.rpartition(".")[2]
    of_class = entry.label.partition(",")[0].rpartition(".")[0].rpartition(".")[2]
    return entry.called_in(judged.op(problem.earlier).at.call) or of_class


def _is_allocated_here(judged: Judged, problem: Problem) -> bool:
    """Whether the memory is the function's own: no caller shows who had it before."""
    known = judged.trace.buffers[problem.buffer] if problem.buffer is not None else None
    return known is not None and (known.origin is Origin.ALLOCATED or known.lent)


def is_lent(judged: Judged, problem: Problem) -> bool:
    """Whether who has a tensor used in between what the first of two calls put there: ``p.data = block``."""
    return problem.buffer is not None and judged.trace.buffers[problem.buffer].lent


def _is_handed_on(judged: Judged, problem: Problem, entry: Entry) -> bool:
    """Whether the earlier op is what a consumer does with memory that a side stream gets again, or refills.

    ``torch.cuda.current_stream().wait_stream(self.side)`` before the result is handed out says that it is
    used on the current stream. So does ``torch.cuda.default_stream().wait_stream(self.side)``: whoever wrote
    that takes the one for the other.
    """
    assert problem.earlier is not None
    use, later = judged.op(problem.earlier), judged.op(problem.later)
    if use.role not in (Role.AFTER_CALL, Role.AFTER_YIELD) or problem.buffer is None:
        return False
    current, waited_for = stream_of(use), _takes_again(judged, problem, later, entry)
    return waited_for is not None and any(
        isinstance(op, Wait)
        and (op.stream == current or judged.trace.streams[op.stream].kind is StreamKind.LEGACY)
        and _source(judged, OpId(number)) == waited_for
        for number, op in enumerate(judged.trace.ops[: problem.earlier])
        if op.at.call == use.at.call
    )


def _is_filled_again(judged: Judged, problem: Problem, entry: Entry) -> bool:
    """Whether a call lets the current stream wait for what it hands out, and then has it filled again.

    ``[self.next_batch() for _ in range(n)]`` of a ring with two slots: who gets the list uses it after that.
    """
    assert problem.earlier is not None
    refill, end = judged.op(problem.earlier), judged.op(problem.later)
    side, current = stream_of(refill), stream_of(end)
    if not is_return(end) or refill.at.call != end.at.call or problem.buffer is None or side is None:
        return False
    if (
        not _is_own(judged.trace, side, entry)
        or judged.trace.buffers[problem.buffer].origin is Origin.ARGUMENT
    ):
        return False
    if plain_name(judged.trace.streams[side]) in entry.joined_elsewhere:
        return False
    filled = [
        number
        for number in judged.uses(problem.buffer, before=problem.earlier)
        if stream_of(judged.op(number)) == side and judged.op(number).at.call == end.at.call
    ]
    return bool(filled) and any(
        stream_of(judged.op(wait)) == current
        and (record := judged.hb.record_seen_by(wait)) is not None
        and stream_of(judged.op(record)) == side
        and record > filled[0]
        for wait in judged.numbers(Wait, first=filled[0], before=problem.earlier)
    )


def _takes_again(judged: Judged, problem: Problem, later: Op, entry: Entry) -> StreamId | None:
    """The stream of the code's own that allocates some memory again, or writes it."""
    assert problem.buffer is not None
    if isinstance(later, Alloc):
        return judged.trace.buffers[problem.buffer].alloc_stream
    side = stream_of(later)
    own = judged.trace.buffers[problem.buffer].origin is not Origin.ARGUMENT
    return side if side is not None and own and _is_own(judged.trace, side, entry) else None


def plain_name(stream: Stream) -> str:
    return stream.name.partition("[")[0].rpartition(".")[2].rpartition(":")[2]


def _took_responsibility(judged: Judged, problem: Problem, entry: Entry) -> bool:
    """Whether the entry itself answers for the stream on which it used the argument too early.

    It does if it makes the current stream wait for that stream afterwards. Of an argument that it reads
    it also does if it waits for that stream on the host, records an event behind the use, or keeps
    the argument's memory for it (``x.record_stream(side)``): who thought of the end, or of the memory, and
    forgot to make the side stream wait first, is wrong by itself. One that does nothing of this leaves all
    to its caller.
    """
    assert problem.earlier is not None
    first, later = judged.op(problem.earlier), judged.op(problem.later)
    current, used_on = stream_of(first), stream_of(later)
    if problem.buffer is None or (used_on is not None and _is_handed_in(judged.trace, used_on, entry)):
        return False
    if _was_waited_for_when_given(judged, problem, used_on):
        return False
    for_itself = used_on is not None and waits_for_itself(judged, problem, used_on)
    if isinstance(later, Launch) and for_itself:
        return True
    if not evidence.is_device_memory(judged, problem):
        return False
    if (isinstance(later, Copy) and for_itself) or is_forked_by_caller(judged, used_on, entry):
        return for_itself
    reads = isinstance(later, (Launch, Copy)) and any(
        access.buffer == problem.buffer and access.mode.reads for access in later.accesses
    )
    own = judged.trace.buffers[problem.buffer].origin is not Origin.ARGUMENT
    made_here = used_on is not None and _is_made_in(judged.trace.streams[used_on], entry, later)
    named = _is_named_for_callers(
        later, judged.trace.streams[used_on] if used_on is not None and made_here else None
    )
    if own and made_here and not _is_given_memory(judged.trace):
        # Fresh memory, which no caller has forked for. A function that makes its streams may run once, before
        # anything else has; not where it is given memory, which others have made and used by then.
        return False
    answers_for_reads = (reads or own) and not named and not _waits_for_another(judged, problem)
    # Of the waits of a stream, and of its work, the last comes after all that some of it comes after.
    waits_of = judged.index.last_waits.items()
    joins = [n for (on, _), n in waits_of if on == current and n > problem.later]
    if not own:
        last = judged.index.last_work.items()
        joins += [n for (on, call, _), n in last if (on, call) == (current, later.at.call)]
    if answers_for_reads and not own:
        waits = judged.numbers(SyncStream, SyncEvent, SyncDevice, first=problem.later + 1)
        joins += [number for number in waits if _is_explicit_wait(judged.op(number))]
    if entry.order_in_sight:
        # stats.update(reader.next_ready()), then stats.synchronize(): who calls both has the argument.
        joins = [number for number in joins if judged.op(number).at.call == later.at.call]
    if any(judged.hb.ordered(problem.later, number).verdict is Verdict.YES for number in joins):
        return True
    if used_on is None:
        return False
    kept = part(judged.index.kept.get(problem.buffer, []), first=problem.earlier + 1)
    records = part(judged.index.records.get(used_on, []), first=problem.later + 1)
    about = map(judged.op, (*kept, *records))
    return answers_for_reads and any(
        op.at.call == later.at.call and _is_about(judged, op, problem.buffer, used_on) for op in about
    )


def _is_named_for_callers(later: Op, made_here: Stream | None) -> bool:
    """Whether a call names its stream, and callers may be meant to order by that.

    Where every call does, as in cuda-python, they have no current stream to order with. Of a lane that the
    function makes itself in CuPy (``rows.get(stream=lane)``) nobody else can have let it wait.
    """
    if not isinstance(later, (Launch, Copy)) or later.choice is not StreamChoice.NAMED:
        return False
    words = made_here.words if made_here is not None else None
    return words is None or not words.current


def is_forked_by_caller(judged: Judged, used_on: StreamId | None, entry: Entry) -> bool:
    """Whether who calls the entry has another call that lets the stream wait, and does nothing else with it.

    ``with writer: writer.add(x)``, where ``__enter__`` of the writer does.
    """
    if used_on is None or not entry.forked_elsewhere:
        return False
    name = plain_name(judged.trace.streams[used_on])
    return name in entry.forked_elsewhere or joins.ALL_STREAMS in entry.forked_elsewhere


def _was_waited_for_when_given(judged: Judged, problem: Problem, used_on: StreamId | None) -> bool:
    """Whether the constructor let a stream wait for what it was given.

    ``self.pages = pages; self.stream.wait_stream(torch.cuda.current_stream())``: from then on the pages are
    complete, unless their owner writes them again.
    """
    passed = judged.trace.buffers[problem.buffer].passed if problem.buffer is not None else None
    if passed is None or not passed.at_construction or used_on is None:
        return False
    waits = part(judged.index.waits.get(used_on, []), before=problem.earlier)
    return any(judged.op(wait).at.call == 0 for wait in waits)


def _is_given_memory(trace: Trace) -> bool:
    return any(buffer.passed is not None for buffer in trace.buffers.values())


def _is_made_in(stream: Stream, entry: Entry, later: Op) -> bool:
    """Whether the function that is the entry makes the stream itself, above the op.

    So does one that has an object make it for itself: ``def run(self): self.set_up(); self.step()``.
    """
    made, start = stream.span, entry.start
    if stream.call is not None and stream.call == later.at.call:
        return stream.call > 0 or not entry.is_method
    here = made is not None and made.path == start.path and start.line <= made.line <= later.at.span.line
    return here and not entry.is_method


def _is_explicit_wait(op: Op) -> bool:
    return isinstance(op, (SyncStream, SyncEvent, SyncDevice)) and op.purpose in (
        Purpose.ORDER,
        Purpose.ANSWER,
    )


def _is_about(judged: Judged, op: Op, buffer: BufferId, stream: StreamId | None) -> bool:
    """Whether an op keeps the buffer for the stream, or records an event of the source on it."""
    match op:
        case KeepAlive():
            return op.buffer == buffer and op.stream == stream
        case Record():
            event = judged.trace.events[op.event]
            # Whoever measures records events too; for fresh memory that tells nothing.
            fresh = judged.trace.buffers[buffer].origin is not Origin.ARGUMENT
            return op.stream == stream and event.is_named and not (fresh and event.timing)
        case _:
            return False


def _waits_for_another(judged: Judged, problem: Problem) -> bool:
    """Whether the stream waits for a third one before the use: the argument comes from there.

    ``self.dist_stream.wait_stream(self.memcpy_stream)``, then the batch is used on ``dist_stream``.
    """
    assert problem.earlier is not None
    used_on, current = stream_of(judged.op(problem.later)), stream_of(judged.op(problem.earlier))
    if used_on is None:
        return False
    waits = part(judged.index.waits.get(used_on, []), first=problem.earlier + 1, before=problem.later)
    return any(_source(judged, wait) != current for wait in waits)


def waits_for_itself(judged: Judged, problem: Problem, used_on: StreamId) -> bool:
    """Whether the only stream that another one waits for before the use is that one itself.

    ``with torch.cuda.stream(side): side.wait_stream(torch.cuda.current_stream())``
    """
    assert problem.earlier is not None
    waits = part(judged.index.waits.get(used_on, []), first=problem.earlier + 1, before=problem.later)
    return bool(waits) and all(_source(judged, wait) == used_on for wait in waits)


def _forgot_the_end(judged: Judged, problem: Problem, entry: Entry) -> bool:
    """Whether the entry began work aside for its own use, and returns the result without waiting for it.

    It made the side stream wait for the current one, so the overlap is its own idea. The stream is neither an
    argument nor handed back: its caller cannot wait for it.
    """
    assert problem.earlier is not None
    made = judged.op(problem.earlier)
    side, current = stream_of(made), stream_of(judged.op(OpId(0)))
    if side is None or not _is_own(judged.trace, side, entry):
        return False
    waits = part(judged.index.waits.get(side, []), before=problem.earlier)
    # What the constructor let the stream wait for says nothing of what later calls begin.
    begun = any(
        _source(judged, wait) == current and judged.op(wait).at.call == made.at.call for wait in waits
    )
    return begun and _nobody_waits(judged, problem, side, entry)


def forgot_one_end(judged: Judged, problem: Problem, entry: Entry) -> bool:
    """Whether a call returns what a stream still writes, and has waited for other such work.

    ``dq, dk = exchange(dq, dk, ctx.side)``, which ends with ``current.wait_stream(side)``, and a third
    gradient from the same stream, for which nobody waits: its consumer is taken to use it at once. Of a
    stream that is an argument its caller knows.
    """
    assert problem.earlier is not None
    if entry.callers_cut or entry.is_step:
        return False
    made, end = judged.op(problem.earlier), judged.op(problem.later)
    side, user = stream_of(made), stream_of(end)
    if side is None or user is None or is_argument(judged.trace.streams[side]) or not is_return(end):
        return False
    joins_of = part(judged.index.waits_for.get((user, side), []), before=problem.earlier)
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
    joined = {plain_name(judged.trace.streams[stream]) for stream in behind} & entry.joined_elsewhere
    if announced or joined:
        return False
    # reduce(), then finish(), which waits for the stream: the end of the first was not forgotten.
    after = judged.numbers(SyncStream, Wait, SyncEvent, first=problem.later)
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
            return stream != side and _source(judged, OpId(number)) == side
        case SyncEvent():
            return _source(judged, OpId(number)) == side
        case _:
            return False


def _source(judged: Judged, wait: OpId) -> StreamId | None:
    """The stream that a wait waits for; None if its event holds no record."""
    record = judged.hb.record_seen_by(wait)
    return stream_of(judged.op(record)) if record is not None else None


def _is_own(trace: Trace, stream: StreamId, entry: Entry) -> bool:
    """Whether a stream was made by the code at hand, or given to the object when it was made."""
    known = trace.streams[stream]
    match known.kind:
        case StreamKind.NON_BLOCKING | StreamKind.BLOCKING:
            others = known.handed or is_argument(known) or is_of_caller(known)
            return not others or _at_construction(known, entry)
        case StreamKind.UNKNOWN:
            return _at_construction(known, entry)
        case StreamKind.CURRENT | StreamKind.LEGACY | StreamKind.PER_THREAD:
            return False


def is_of_caller(stream: Stream) -> bool:
    """Whether an object has the stream which a caller passes: the caller may order its work too."""
    passed = stream.passed
    return passed is not None and not passed.rest and passed.part.startswith(".")


def is_argument(thing: Stream | Buffer) -> bool:
    return thing.passed is not None and thing.passed.is_argument


def _at_construction(stream: Stream, entry: Entry) -> bool:
    """Whether the object got it itself: ``lane`` or ``lanes[0]``, and not as a part of something else."""
    passed = stream.passed
    of_object = bool(entry.outside_calls) or entry.by_itself
    return of_object and passed is not None and passed.at_construction and "." not in passed.part


def _is_handed_in(trace: Trace, stream: StreamId, entry: Entry) -> bool:
    """Whether a stream is an argument of the call: the caller, who knows both, may have forked it."""
    known = trace.streams[stream]
    return (
        known.kind in (StreamKind.UNKNOWN, StreamKind.NON_BLOCKING, StreamKind.BLOCKING)
        and (is_argument(known) or is_of_caller(known))
        and not _is_own(trace, stream, entry)
    )
