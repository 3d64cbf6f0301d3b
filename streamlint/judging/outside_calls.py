"""What a pair assumes about the calls that unseen code makes: their order, and what comes between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.judging import owners
from streamlint.judging.responsibility import is_lent
from streamlint.rules import lifetimes
from streamlint.rules.base import is_entry, is_return, readable, stream_of
from streamlint.trace import (
    Alloc,
    Copy,
    CudaCall,
    Doubt,
    Event,
    Free,
    HostAccess,
    Launch,
    Op,
    OpId,
    Origin,
    Purpose,
    Record,
    Role,
    StreamKind,
    SyncEvent,
    SyncStream,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.entries.runs import Run
    from streamlint.rules.base import Judged, Problem
    from streamlint.trace import Buffer


def _is_of_other_memory(later: Op, problem: Problem) -> bool:
    """Whether the later operation gets memory that was given back: it does not know what that was."""
    used = later.accesses if isinstance(later, (Launch, Copy)) else ()
    return isinstance(later, (Alloc, Launch, Copy)) and all(a.buffer != problem.buffer for a in used)


def doubts_of(judged: Judged, problem: Problem, first: OpId, run: Run) -> set[Doubt]:
    """What a pair assumes about the calls that unseen code makes."""
    earlier, later = judged.op(first), judged.op(problem.later)
    doubts = {Doubt.CALLS} if run.entry.after_others else set()
    if run.entry.with_hooks and _may_wait_between_hooks(judged, problem, earlier, later):
        doubts.add(Doubt.SOME_PATHS)
    between = not is_entry(earlier) or is_lent(judged, problem)
    if between and earlier.at.call != later.at.call:
        return doubts | _of_calls_between(judged, problem, first, run)
    if later.at.call > 1 and len(set(run.entry.outside_calls)) > 1 and not _is_prepared(later, run):
        # start(), then step(), which calls start() too: what step() does alone, its own entry shows.
        doubts.add(Doubt.SOME_PATHS)
    return doubts


def _may_wait_between_hooks(judged: Judged, problem: Problem, earlier: Op, later: Op) -> bool:
    """Whether what a module does between its hooks may wait; that memory goes back behind it stays so.

    What it computes and a hook gets, nothing comes between.
    """
    if earlier.role is Role.FORWARD and earlier.at.call == later.at.call:
        return False
    return not _is_of_other_memory(later, problem) or lifetimes.kept_alike(judged, problem, earlier)


def _of_calls_between(judged: Judged, problem: Problem, first: OpId, run: Run) -> set[Doubt]:
    """The same for a pair of which one is of a later call than the other."""
    earlier, later = judged.op(first), judged.op(problem.later)
    many = len(set(run.entry.outside_calls)) > 1 and not _is_again(earlier, later, run)
    asks_caller = not _lets_go_itself(judged, problem, first) and not _waits_itself(judged, later, run)
    handed = asks_caller and _is_handed(_recorded_behind(judged, first))
    doubts = {Doubt.CALLS}
    if many and handed:
        # ticket = copier.submit(rows), then copier.use(ticket): who has the ticket has its event. A
        # method of the ticket is what that is there for: whether code gets at the event, is asked apart.
        doubts.add(Doubt.RESULT if run.entry.of_handle else Doubt.SOME_PATHS)
    if _calls_may_order(judged, first, problem.later, run, many=many, handed=handed):
        doubts.add(Doubt.SOME_PATHS)
    elif many and _caller_may_order(judged, earlier, later, run):
        # Where the object keeps an event for that, it is asked apart whether anybody gets at it.
        kept = isinstance(later, HostAccess) and _is_kept(_recorded_behind(judged, first))
        doubts.add(Doubt.RESULT if kept else Doubt.SOME_PATHS)
    return doubts


def _calls_may_order(
    judged: Judged, first: OpId, second: OpId, run: Run, *, many: bool, handed: bool
) -> bool:
    """Whether calls of others come between the two that may order them.

    ``many``: calls of several methods. ``handed``: who calls has an event behind the earlier one.
    """
    earlier, later, entry = judged.op(first), judged.op(second), run.entry
    if entry.is_step and earlier.at.call == 0 and entry.outside_calls:
        # with torch.cuda.stream(self.side): self.forward(x): a step meets what the constructor has left
        # on the side stream where its caller has it run.
        return True
    if owners.may_order(judged, earlier, later, run):
        return True
    if not many and (entry.one_of_several or handed or _is_finished_elsewhere(judged, first, later, run)):
        return True
    if entry.called_in(later.at.call) in entry.steps_of_ordering:
        # next() waits for self.copies and then calls preload(): who calls that by itself, behind next(),
        # leaves out what next() does first. run() ends with .tolist(), and calls prepare(rows) before.
        return True
    if entry.ordered_by_hooks:
        # fetch() before each step, and a hook of every layer that waits for what it has fetched.
        return True
    # How long the loop keeps what a call hands out, its calls in a row do not show.
    shown = min(entry.loop_in_sight, 2) if is_return(earlier) else entry.loop_in_sight
    if entry.order_in_sight or later.at.call - earlier.at.call < shown:
        # worker = Worker(); worker.load(); worker.join(); worker.step(): what that order leaves open is
        # found there.
        return True
    # A function called twice: upload(), finish() of the same module, upload() again. And what a consumer
    # does with a result: between two of them it may call begin(), which forks.
    return bool(entry.orders_elsewhere) and (not entry.outside_calls or earlier.role is Role.AFTER_CALL)


def _lets_go_itself(judged: Judged, problem: Problem, use: OpId) -> bool:
    """Whether a call drops what it has allocated, and what a copy to the host that it hands out still reads.

    ``probs = x * 2``, ``host = probs.to("cpu", non_blocking=True)`` aside, ``return Pending(host, event)``:
    the host goes on before it waits, or it would have let the copy block. Who gets nothing but an event
    may let the stream wait for it at once.
    """
    copy = judged.op(use)
    if not isinstance(judged.op(problem.later), Alloc) or problem.buffer is None:
        return False
    if not isinstance(copy, Copy) or not judged.trace.buffers[copy.dst.buffer].space.on_host:
        return False
    memory = judged.trace.buffers[problem.buffer]
    if memory.origin is Origin.ARGUMENT or lifetimes.owner_doubts(judged, memory.id):
        return False
    drops = map(judged.op, judged.numbers(Free, first=use + 1, before=problem.later))
    return any(
        isinstance(op, Free) and op.buffer == problem.buffer and op.at.call == judged.op(use).at.call
        for op in drops
    )


def _is_again(earlier: Op, later: Op, run: Run) -> bool:
    """Whether the two belong to calls of one method in a row: ``frames.start()``, and ``put()`` twice."""
    calls = run.entry.outside_calls
    first, second = earlier.at.call, later.at.call
    return 0 < first == second - 1 < len(calls) and calls[first - 1] == calls[second - 1]


def _is_finished_elsewhere(judged: Judged, first: OpId, later: Op, run: Run) -> bool:
    """Whether another method of the class lets the host wait for what the earlier call has begun.

    That is an event which the call records: who calls ``start()`` twice in a row may well call ``finish()``
    in between. Or a page that it has filled, which the other one reads: ``ask(query)``, and then ``tell()``.
    """
    if _waits_itself(judged, later, run):
        return False
    names = [event.name for event in _recorded_behind(judged, first)]
    names += [buffer.name for buffer in _brought_by(judged, first)]
    fields = (readable(name, "").partition("[")[0].rpartition(".")[2] for name in names)
    return any(name in run.entry.finished_elsewhere for name in fields)


def _brought_by(judged: Judged, first: OpId) -> list[Buffer]:
    """The memory of the host that copies of a call fill, behind one of its operations on the same stream."""
    earlier = judged.op(first)
    return [
        buffer
        for op in map(judged.op, judged.numbers(Copy, first=first + 1))
        if isinstance(op, Copy) and op.at.call == earlier.at.call and op.stream == stream_of(earlier)
        if (buffer := judged.trace.buffers[op.dst.buffer]).space.on_host
    ]


def _is_handed(events: Sequence[Event]) -> bool:
    """Whether the caller has one of them, and may wait for it."""
    return any(event.handed for event in events)


def _is_kept(events: Sequence[Event]) -> bool:
    """Whether objects or the module keep them, and no caller has one."""
    return any(event.holders is not None for event in events) and not _is_handed(events)


def _recorded_behind(judged: Judged, first: OpId) -> list[Event]:
    """The events that the call which queued an op recorded behind it."""
    earlier = judged.op(first)
    return [
        judged.trace.events[op.event]
        for op in map(judged.op, judged.numbers(Record, first=first + 1))
        if isinstance(op, Record) and op.at.call == earlier.at.call and op.stream == stream_of(earlier)
    ]


def _is_prepared(later: Op, run: Run) -> bool:
    """Whether an op belongs to a call that does nothing without those before it."""
    return run.entry.needs_earlier and later.at.call == len(run.entry.outside_calls)


def _caller_may_order(judged: Judged, earlier: Op, later: Op, run: Run) -> bool:
    """Whether outside code can be expected to synchronize between two different methods.

    It can where the class has another method for that, and, before a host access, where the first
    method queued its work on the caller's own stream. It need not where the second method waits by
    itself: too late, or for the wrong event.
    """
    if isinstance(later, HostAccess) and _waits_itself(judged, later, run):
        return False
    stream = stream_of(earlier)
    callers_own = stream is not None and judged.trace.streams[stream].kind is StreamKind.CURRENT
    return (callers_own and isinstance(later, HostAccess)) or bool(run.entry.orders_elsewhere)


def _waits_itself(judged: Judged, later: Op, run: Run) -> bool:
    """Whether the call that holds ``later`` has a synchronization of its own, or asks an event.

    Of a handle, a call before it may: ``pending.wait()``, then ``pending.rows()``.
    """
    first = 2 if run.entry.of_handle else later.at.call
    return any(
        isinstance(op, SyncEvent)
        or (isinstance(op, SyncStream) and op.purpose in (Purpose.ORDER, Purpose.ANSWER))
        or (isinstance(op, CudaCall) and (op.stream is not None or op.event is not None))
        for op in map(judged.op, judged.numbers(SyncEvent, SyncStream, CudaCall))
        if first <= op.at.call <= later.at.call
    )
