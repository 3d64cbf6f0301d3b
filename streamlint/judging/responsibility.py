"""Whose business is the order at the two ends of a call: the function's, or its unseen caller's?

What a caller queued on an argument may be pending when the call begins, and it may use the result as soon
as the call returns. A function that works aside and leaves both ends open is a step of its caller's; one that
answers for one end and forgets the other is wrong by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.facts import joins
from streamlint.judging import evidence
from streamlint.judging.forgotten_ends import forgot_the_end, source, waits_for_itself
from streamlint.judging.handed_on import is_explicit_wait, is_filled_again, is_handed_on
from streamlint.judging.owners import is_argument, is_handed_in, is_made_in, plain_name
from streamlint.order.hb import Verdict
from streamlint.rules.base import (
    Judged,
    Problem,
    is_entry,
    is_handed_out,
    is_read_by_caller,
    part,
    stream_of,
)
from streamlint.trace import (
    BufferId,
    Copy,
    Doubt,
    KeepAlive,
    Launch,
    Op,
    OpId,
    Origin,
    Record,
    Role,
    Space,
    Stream,
    StreamChoice,
    StreamId,
    SyncDevice,
    SyncEvent,
    SyncStream,
)

if TYPE_CHECKING:
    from streamlint.interp.entries.runs import Entry
    from streamlint.trace import Buffer


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
    if is_handed_out(end) and not entry.is_step and forgot_the_end(judged, problem, entry):
        settled.add(Doubt.RESULT)
    if is_handed_on(judged, problem, entry) or is_filled_again(judged, problem, entry):
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
    return _called(entry, judged.op(problem.earlier))


def hands_out_pending(judged: Judged, problem: Problem, entry: Entry) -> str:
    """The name of the function that hands out an array which a copy is to fill; or "".

    ``return tokens.to("cpu", non_blocking=True).numpy()``: a caller in another file may wait for all copies
    at once.
    """
    later = judged.op(problem.later)
    in_array = problem.buffer is not None and judged.trace.buffers[problem.buffer].in_array
    return _called(entry, later) if in_array and is_read_by_caller(later) else ""


def _called(entry: Entry, op: Op) -> str:
    """The function whose call from outside an op stands for."""
    if not entry.outside_calls:
        return entry.label.rpartition(".")[2]
    of_class = entry.label.partition(",")[0].rpartition(".")[0].rpartition(".")[2]
    return entry.called_in(op.at.call) or of_class


def _is_allocated_here(judged: Judged, problem: Problem) -> bool:
    """Whether the memory is the function's own: no caller shows who had it before."""
    known = judged.trace.buffers[problem.buffer] if problem.buffer is not None else None
    return known is not None and (known.origin is Origin.ALLOCATED or known.lent)


def is_lent(judged: Judged, problem: Problem) -> bool:
    """Whether who has a tensor used in between what the first of two calls put there: ``p.data = block``."""
    return problem.buffer is not None and judged.trace.buffers[problem.buffer].lent


def comes_again(judged: Judged, problem: Problem, entry: Entry) -> bool:
    """Whether a generator yields what it allocates, and answers for the order of streams that it makes.

    ``for batch in batches(parts): ...`` for each epoch: the next one gets memory that work on the last batch
    of this one may still use.
    """
    assert problem.earlier is not None
    if entry.callers_cut or problem.buffer is None or not is_entry(judged.op(problem.earlier)):
        return False
    if not any(judged.op(number).role is Role.AFTER_YIELD for number in judged.uses(problem.buffer)):
        return False
    return not callers_show(judged, problem, entry) and _took_responsibility(
        judged, problem, entry, again=True
    )


def _took_responsibility(judged: Judged, problem: Problem, entry: Entry, *, again: bool = False) -> bool:
    """Whether the entry itself answers for the stream on which it used the argument too early.

    It does if it makes the current stream wait for that stream afterwards. Of an argument that it reads
    it also does if it waits for that stream on the host, records an event behind the use, or keeps
    the argument's memory for it (``x.record_stream(side)``): who thought of the end, or of the memory, and
    forgot to make the side stream wait first, is wrong by itself. One that does nothing of this leaves all
    to its caller. ``again``: whether it surely does not run once, before all else.
    """
    assert problem.earlier is not None
    later = judged.op(problem.later)
    used_on = stream_of(later)
    if problem.buffer is None or (used_on is not None and is_handed_in(judged.trace, used_on, entry)):
        return False
    if used_on is not None and _came_together(
        judged.trace.streams[used_on], judged.trace.buffers[problem.buffer]
    ):
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
    made_here = used_on is not None and is_made_in(judged.trace.streams[used_on], entry, later)
    named = _is_named_for_callers(
        later, judged.trace.streams[used_on] if used_on is not None and made_here else None
    )
    if own and made_here and not (again or _is_given_memory(judged)):
        # Fresh memory, which no caller has forked for. A function that makes its streams may run once, before
        # anything else has; not where it is given memory, which others have made and used by then.
        return False
    answers_for_reads = (reads or own) and not named and not _waits_for_another(judged, problem)
    behind = _waits_behind(judged, problem, entry, own=own, on_host=answers_for_reads and not own)
    if any(judged.hb.ordered(problem.later, number).verdict is Verdict.YES for number in behind):
        return True
    return used_on is not None and answers_for_reads and _is_kept_or_recorded(judged, problem, used_on)


def _came_together(stream: Stream, memory: Buffer) -> bool:
    """Whether one call got both: ``Table(rows, side)``, whose constructor works on ``rows`` there.

    Who has both may have made the one on the other, whatever the object does with that stream later on.
    """
    both = is_argument(stream) and is_argument(memory)
    return (
        both
        and stream.passed is not None
        and memory.passed is not None
        and (stream.passed.call == memory.passed.call)
    )


def _waits_behind(judged: Judged, problem: Problem, entry: Entry, *, own: bool, on_host: bool) -> list[OpId]:
    """Where the current stream may come after the use, or with ``on_host`` the host.

    Of the waits of a stream, and of its work, the last comes after all that some of it comes after.
    """
    assert problem.earlier is not None
    current, call = stream_of(judged.op(problem.earlier)), judged.op(problem.later).at.call
    found = [n for (on, _), n in judged.index.last_waits.items() if on == current and n > problem.later]
    if not own:
        last = judged.index.last_work.items()
        found += [number for (on, of, _), number in last if (on, of) == (current, call)]
    if on_host:
        waits = judged.numbers(SyncStream, SyncEvent, SyncDevice, first=problem.later + 1)
        found += [number for number in waits if is_explicit_wait(judged.op(number))]
    if entry.order_in_sight:
        # stats.update(reader.next_ready()), then stats.synchronize(): who calls both has the argument.
        found = [number for number in found if judged.op(number).at.call == call]
    return found


def _is_kept_or_recorded(judged: Judged, problem: Problem, stream: StreamId) -> bool:
    """Whether the call keeps the memory for the stream that used it, or records an event behind the use."""
    assert problem.earlier is not None
    assert problem.buffer is not None
    kept = part(judged.index.kept.get(problem.buffer, []), first=problem.earlier + 1)
    records = part(judged.index.records.get(stream, []), first=problem.later + 1)
    call = judged.op(problem.later).at.call
    return any(
        op.at.call == call and _is_about(judged, op, problem.buffer, stream)
        for op in map(judged.op, (*kept, *records))
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


def _is_given_memory(judged: Judged) -> bool:
    """Whether callers pass memory of a device, and not numbers and rows that are only copied to one."""
    given = (known for known in judged.trace.buffers.values() if known.passed is not None)
    return any(not known.space.on_host and _is_used_there(judged, known) for known in given)


def _is_used_there(judged: Judged, known: Buffer) -> bool:
    if known.space is not Space.UNKNOWN:
        return True
    uses = map(judged.op, judged.uses(known.id))
    return any(isinstance(op, Launch) and op.role is Role.CODE for op in uses)


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
    return any(source(judged, wait) != current for wait in waits)
