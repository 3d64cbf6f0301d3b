"""What speaks against a problem that one path shows: other paths, callers, threads, signals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.judging import blocking, evidence, other_paths, outside_calls, refills, threads
from streamlint.judging.edges import kept_for_another
from streamlint.judging.forgotten_ends import forgot_one_end, waits_for_itself
from streamlint.judging.responsibility import answered, comes_again
from streamlint.rules import lifetimes
from streamlint.rules.base import is_read_by_caller, is_return, stream_of
from streamlint.trace import (
    Barrier,
    BufferId,
    Copy,
    Doubt,
    Free,
    HostAccess,
    KeepAlive,
    Launch,
    Mode,
    Op,
    OpId,
    Origin,
    Provenance,
    Record,
    Stream,
    StreamId,
    StreamKind,
    SyncEvent,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from streamlint.interp.entries.runs import Run
    from streamlint.rules.base import Judged, Problem


def settle(problem: Problem, judged: Judged, run: Run, paths: Sequence[Judged]) -> Problem:
    """Adds the doubts that need more than one path, or the entry, to be seen."""
    if problem.earlier is None:
        if Doubt.RESULT in problem.doubts and _returns_results(judged, problem.later, run, paths):
            problem = replace(problem, doubts=problem.doubts - {Doubt.RESULT})
        settles = problem.settled_by
        if settles is None or not any(settles(other) for other in paths if other is not judged):
            return problem
        return replace(problem, doubts=problem.doubts | {Doubt.SOME_PATHS})
    doubts = set(blocking.doubts_of(judged, problem))
    earlier, later = judged.op(problem.earlier), judged.op(problem.later)
    doubts -= answered(judged, problem, run.entry)
    if Doubt.ARGUMENT in doubts and comes_again(judged, problem, run.entry):
        doubts = doubts - {Doubt.ARGUMENT} | {Doubt.CALLS}
    if Doubt.RESULT in doubts and forgot_one_end(judged, problem, run.entry):
        doubts = doubts - {Doubt.RESULT} | {Doubt.CALLS}
    doubts -= refills.answered(judged, problem)
    doubts |= guessed(judged, problem)
    if is_read_by_caller(later):
        # Somebody may wait in between, for the event behind the copy: whether anybody does, is asked apart.
        doubts |= {Doubt.CALLS} if earlier.at.call != later.at.call else set()
    else:
        doubts |= outside_calls.doubts_of(judged, problem, problem.earlier, run)
    if isinstance(later, Free) and Doubt.CALLS in doubts and _may_end_aside(judged, later, run):
        doubts.add(Doubt.SOME_PATHS)
    if Doubt.SAME_STREAM in doubts and _are_two_streams(judged, problem):
        doubts.discard(Doubt.SAME_STREAM)
        doubts |= barriers_between(judged, problem.earlier, problem.later)
    if other_paths.signal(problem, judged, paths):
        doubts.add(Doubt.SIGNAL)
    doubts |= threads.doubts_of(judged, problem)
    if not doubts & {Doubt.SOME_PATHS, Doubt.ESCAPE} and other_paths.order(problem, judged, paths):
        doubts.add(Doubt.SOME_PATHS)
    return replace(problem, doubts=frozenset(doubts))


def _returns_results(judged: Judged, end: OpId, run: Run, paths: Sequence[Judged]) -> bool:
    """Whether a function that hands out memory at ``end`` hands out elsewhere what a graph has written.

    ``if key in self.graphs: return self.replay(key, x)``, and below it a capture: callers use what they get.
    What callers in sight do is judged there: the first of them may throw it away.
    """
    several = len(set(run.entry.outside_calls)) > 1
    if several or run.entry.order_in_sight or not is_return(judged.op(end)):
        return False
    return any(_returns_launched(path, number) for path in paths for number in path.numbers(Launch))


def _returns_launched(judged: Judged, end: OpId) -> bool:
    op = judged.op(end)
    if not isinstance(op, Launch) or not is_return(op):
        return False
    launches = (
        judged.op(number)
        for access in op.accesses
        for number in judged.uses(access.buffer, before=end)
        if any(use.mode.writes for use in lifetimes.accesses_to(judged.op(number), access.buffer))
    )
    return any(
        isinstance(launch, Launch) and launch.graph is not None and launch.at.call == op.at.call
        for launch in launches
    )


def guessed(judged: Judged, problem: Problem) -> set[Doubt]:
    """The doubt about a pair whose operations are both only taken to use their arguments.

    Also where one of them is an unresolved call, and the code tells that it uses nothing on a stream: by a
    wait behind it, or because the memory is on the host (``data = reader.read(i); data.pin_memory()``).
    Nor is a pair sure that uses memory of which its path has answered a test otherwise than it has shown.
    A kernel that was seen to be launched is no such call, whatever it does with its arguments.
    """
    if problem.earlier is None:
        return set()
    earlier, later = judged.op(problem.earlier), judged.op(problem.later)
    if any(_uses(op, judged.trace.contradicted) for op in (earlier, later)):
        return {Doubt.GUESSED}
    both = Doubt.OPAQUE in earlier.doubts & later.doubts and not _have_changed_places(earlier, later)
    used_on = stream_of(later)
    # with torch.cuda.stream(comm): comm.wait_stream(torch.cuda.current_stream()): there is something to wait
    # for, says who wrote it.
    waits = (
        Doubt.OPAQUE in later.doubts and used_on is not None and waits_for_itself(judged, problem, used_on)
    )
    if both and not waits and not evidence.fills_fresh(judged, problem):
        return {Doubt.GUESSED}
    if _is_sent_and_kept(judged, problem):
        return {Doubt.GUESSED}
    if judged.trace.provenance is Provenance.OBSERVED:
        return set()
    if _may_only_read(judged, problem):
        return {Doubt.GUESSED}
    if not waits and _is_waited_for_behind(judged, problem.earlier, problem.later):
        return {Doubt.GUESSED}
    calls = [
        op
        for op in map(judged.op, (problem.earlier, problem.later))
        if Doubt.OPAQUE in op.doubts and not evidence.surely_uses(judged, problem, op)
    ]
    used = evidence.memory_of(judged, problem) if any(isinstance(op, Launch) for op in calls) else []
    on_host = bool(used) and all(judged.trace.buffers[number].space.on_host for number in used)
    return {Doubt.GUESSED} if on_host else set()


def _uses(op: Op, buffers: Container[BufferId]) -> bool:
    return isinstance(op, (Launch, Copy, HostAccess)) and any(one.buffer in buffers for one in op.accesses)


def _have_changed_places(earlier: Op, later: Op) -> bool:
    """Whether two kernels of unseen code get the same arrays, some at other places: ``old, new = new, old``.

    A kernel gives nothing back, so the first one writes one of them, and the second one uses that.
    """
    if not isinstance(earlier, Launch) or not isinstance(later, Launch):
        return False
    first, second = ([access.buffer for access in op.accesses] for op in (earlier, later))
    whole = all(access.mode.writes and not access.region for access in (*earlier.accesses, *later.accesses))
    return whole and first != second and set(first) == set(second) and len(first) == len(set(first)) > 1


def _is_sent_and_kept(judged: Judged, problem: Problem) -> bool:
    """Whether an unresolved call only may write an argument, which the caller only may read next.

    ``comm.send(x.data_ptr(), n, peer, self.stream.ptr)``: it may as well read it, and who sends reads on.
    """
    assert problem.earlier is not None
    call, later = judged.op(problem.earlier), judged.op(problem.later)
    if Doubt.OPAQUE not in call.doubts or not is_return(later) or problem.buffer is None:
        return False
    return judged.trace.buffers[problem.buffer].origin is Origin.ARGUMENT


def _may_only_read(judged: Judged, problem: Problem) -> bool:
    """Whether the later op is an unresolved call of several arrays, not known to write the one at hand.

    ``step(old, new, block=..., stream=kernels)`` while a copy of ``old`` is under way: which of the two it
    writes is not told. What is read next, before anybody else has written it, it has written.
    """
    assert problem.earlier is not None
    buffer, call = problem.buffer, judged.op(problem.later)
    if buffer is None or not isinstance(call, Launch) or Doubt.OPAQUE not in call.doubts:
        return False
    others = {access.buffer for access in call.accesses} - {buffer}
    written = any(access.mode.writes for access in lifetimes.accesses_to(judged.op(problem.earlier), buffer))
    if written or not others:
        return False
    following = next(iter(judged.touching(buffer, problem.later + 1)), None)
    if following is None:
        return True
    reader = judged.op(following)
    return Doubt.OPAQUE in reader.doubts or not any(
        access.mode.reads for access in lifetimes.accesses_to(reader, buffer)
    )


def _is_waited_for_behind(judged: Judged, first: OpId, second: OpId) -> bool:
    """Whether ``second`` is an unresolved call, and a wait for ``first`` comes behind it, before a shown use.

    ``views = manifest.unpack(blob); stream.wait_event(ready); return views[0] + 1``: it only makes views.
    """
    stream, call = stream_of(judged.op(first)), judged.op(second)
    if not isinstance(call, Launch) or Doubt.OPAQUE not in call.doubts or stream is None:
        return False
    if _gets_addresses(call):
        return False
    uses = (number for access in call.accesses for number in judged.uses(access.buffer, second + 1))
    shown = min((number for number in uses if Doubt.OPAQUE not in judged.op(number).doubts), default=None)
    recorded = {
        op.event
        for op in map(judged.op, judged.numbers(Record, first=first + 1, before=shown))
        if isinstance(op, Record) and op.stream == stream
    }
    return any(
        op.at.function == call.at.function
        and (
            (isinstance(op, (Wait, SyncEvent)) and op.event in recorded)
            or (isinstance(op, SyncStream) and op.stream == stream)
        )
        for op in map(judged.op, judged.numbers(Wait, SyncEvent, SyncStream, first=second + 1, before=shown))
    )


def _gets_addresses(call: Launch) -> bool:
    """Whether an unresolved call works on a stream that it is given, on memory whose addresses it gets.

    ``comm.recv(rows.data.ptr, n, dtype, peer, stream.ptr)``: an address is no array, and has no views.
    """
    return bool(call.accesses) and all(access.mode is Mode.UPDATE for access in call.accesses)


def _may_end_aside(judged: Judged, drop: Free, run: Run) -> bool:
    """Whether the caller may wait for what a call has left before it allocates.

    It may call a step, as in ``self._send(x)``, and then ``current.wait_stream(self.side)``. What callers
    gave is theirs anyway, and what a program in sight allocates is seen where that runs.
    """
    if judged.trace.buffers[drop.buffer].origin is Origin.ARGUMENT:
        return False
    entry = run.entry
    return entry.is_step or entry.has_callers or entry.order_in_sight or bool(entry.orders_elsewhere)


def barriers_between(judged: Judged, first: OpId, second: OpId) -> set[Doubt]:
    """What else may order the pair: of several assumptions the search for an order names one."""
    stream = stream_of(judged.op(first))
    between = map(judged.op, judged.numbers(Barrier, first=first + 1, before=second))
    return {op.why for op in between if isinstance(op, Barrier) and stream in op.streams}


def _are_two_streams(judged: Judged, problem: Problem) -> bool:
    """Whether the code makes one of the two streams wait for the other: then it means two streams.

    ``def forward(self, x, side): side.wait_stream(torch.cuda.current_stream())``. What a library waits
    for by itself, as a hand-off by DLPack does, tells nothing. So does who keeps for one of them what the
    other has allocated.
    """
    pair = {stream for stream in lifetimes.user_and_owner(judged, problem) if stream is not None}
    outside = {stream for stream in pair if _may_be_another(judged.trace.streams[stream])}
    current = {stream.id for stream in judged.trace.streams.values() if stream.kind is StreamKind.CURRENT}
    apart = any(
        outside & told and told <= pair | current and len(told) > 1
        for told in map(set, _told_apart(judged))  # the same two, and not each with a third one
    )
    return apart and not _is_awaited_elsewhere(judged, problem, outside)


def _is_awaited_elsewhere(judged: Judged, problem: Problem, pair: Container[StreamId]) -> bool:
    """Whether a stream is waited for in between that another object got where one of these two was got.

    ``for group in groups: group.reduce()``, and then a wait for the side stream of ``groups[0]``: if all have
    theirs from one context, it waits for each of them.
    """
    assert problem.earlier is not None
    got = {_got_as(stream) for stream in judged.trace.streams.values() if stream.id in pair} - {None}
    call = judged.op(problem.earlier).at.call
    for number in judged.numbers(Wait, first=problem.earlier + 1, before=problem.later):
        record = judged.hb.record_seen_by(number) if judged.op(number).at.call == call else None
        awaited = stream_of(judged.op(record)) if record is not None and record > problem.earlier else None
        if awaited is not None and awaited not in pair and _got_as(judged.trace.streams[awaited]) in got:
            return True
    return False


def _got_as(stream: Stream) -> tuple[str, str] | None:
    """The parameter of a constructor, and the part of what was passed for it, if that is not seen."""
    passed = stream.passed
    return (passed.name, passed.part) if passed is not None and _may_be_another(stream) else None


def _told_apart(judged: Judged) -> Iterator[tuple[StreamId | None, ...]]:
    """Streams of which the code makes one wait for another, or keeps for one what another has allocated."""
    for number in judged.numbers(Wait):
        op, record = judged.op(number), judged.hb.record_seen_by(number)
        if record is not None and isinstance(op, Wait) and judged.trace.events[op.event].span is not None:
            yield stream_of(op), stream_of(judged.op(record))
    for op in map(judged.op, judged.numbers(KeepAlive)):
        if isinstance(op, KeepAlive) and (two := kept_for_another(judged.trace, op)) is not None:
            yield two


def _may_be_another(stream: Stream) -> bool:
    return stream.kind is StreamKind.UNKNOWN or stream.may_be_current
