"""What speaks against a pair of operations that two threads have issued."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.order.hb import Verdict
from streamlint.rules.host_threads import held_at
from streamlint.rules.told_too_early import told_by
from streamlint.trace import (
    Alloc,
    Barrier,
    Callback,
    Copy,
    Doubt,
    HostAccess,
    HostSignal,
    HostWait,
    Join,
    LaneId,
    Launch,
    MonitorId,
    MonitorKind,
    Op,
    OpId,
    Spawn,
    SyncDevice,
    SyncEvent,
    SyncStream,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.rules.base import Judged, Problem
    from streamlint.trace import BufferId, Region

_TELLS = (MonitorKind.ATTRIBUTE, MonitorKind.FLAG, MonitorKind.CONDITION, MonitorKind.SEMAPHORE)
"""Whoever has waited for it knows what was done before it was given; of a semaphore, if that was needed."""
_HOST_SYNCS = (SyncStream, SyncEvent, SyncDevice)


def doubts_of(judged: Judged, problem: Problem) -> set[Doubt]:
    """The doubt about a pair that other threads, or what they wait for, may have ordered."""
    assert problem.earlier is not None
    pair = problem.earlier, problem.later
    apart = _in_unrelated_threads(judged, *pair)
    known = apart and (
        _is_handed_over(judged, problem)
        or _is_left_by_lock(judged, *pair)
        or _is_beside_own_thread(judged, *pair)
        or _are_started_together(judged, problem)
        or told_by(judged, *pair) is not None
    )
    return {Doubt.THREADS} if _done_by_callback(judged, *pair) or (apart and not known) else set()


def _in_unrelated_threads(judged: Judged, earlier: OpId, later: OpId) -> bool:
    """Whether two threads issued the pair, and the earlier op was not issued before the later one's start.

    Locks and queues order threads, too: they are not followed here.
    """
    lanes = {judged.op(earlier).lane, judged.op(later).lane}
    starts = judged.index.starts
    if len(lanes) == 1 or lanes.isdisjoint(starts):
        return False
    first, second = judged.op(earlier).lane, judged.op(later).lane
    joined = first in _waited_for(judged, second, earlier, later)
    # What a thread does is issued at its start in the trace, and may be issued while the next one runs.
    apart = not joined and (first in starts or earlier > starts.get(second, -1))
    return apart and not _was_told(judged, earlier, later)


def _waited_for(judged: Judged, lane: LaneId, since: OpId, before: OpId) -> set[LaneId]:
    """Threads that a thread has joined, or that were joined by one that it has joined, or that started it."""
    known: set[LaneId] = set()
    speakers = {lane}
    for number in reversed(judged.numbers(Join, Spawn, first=since, before=before)):
        op = judged.op(number)
        if isinstance(op, Join) and op.lane in speakers and Doubt.PATH not in op.doubts:
            known.add(op.child)
            speakers.add(op.child)
        elif isinstance(op, Spawn) and op.child in speakers:
            speakers.add(op.lane)
    return known


def _was_told(judged: Judged, earlier: OpId, later: OpId) -> bool:
    """Whether the later thread knows that the earlier op was issued, and has waited for nothing else since.

    ``launched.set()`` of a thread behind what it queues, and ``launched.wait()``. So with a condition, and a
    loop of a thread that makes a pass because somebody took what it had put into a queue, or gave something
    back: what it does then comes after what that one had done. So with a host function that is queued behind
    it: ``stream.launch_host_func(free.put, page)``. Not where it then waits for a lock, or for a semaphore
    that somebody else may have given back, takes the next of several words from a queue, or calls what is not
    seen: who knows what stands behind.
    """
    giver, taker = judged.op(earlier).lane, judged.op(later).lane
    givers, filled = {giver}, set()
    told: dict[MonitorId, OpId] = {}
    since = None
    for number in judged.numbers(Callback, HostSignal, HostWait, first=earlier + 1, before=later):
        op = judged.op(number)
        kind = judged.trace.monitors[op.monitor].kind if isinstance(op, (HostSignal, HostWait)) else None
        if isinstance(op, Callback) and op.lane == giver:
            givers.add(op.body)
        elif isinstance(op, HostSignal) and op.lane in givers and kind is MonitorKind.QUEUE:
            filled.add(op.monitor)
        elif isinstance(op, HostSignal) and op.lane in givers and kind in _TELLS:
            told.setdefault(op.monitor, number)
        elif isinstance(op, HostWait) and op.lane == taker:
            given = told.get(op.monitor)
            if given is not None and (
                kind is not MonitorKind.SEMAPHORE or judged.hb.ordered(given, number).verdict is Verdict.YES
            ):
                since = number
            elif kind in (MonitorKind.LOCK, MonitorKind.FLAG, MonitorKind.SEMAPHORE) or op.monitor in filled:
                since = None
    return since is not None and not judged.trace.calls_unseen(since, later)


def _is_handed_over(judged: Judged, problem: Problem) -> bool:
    """Whether one thread made the memory, worked on it and put it into a queue from which the other takes it.

    ``batch = host.to("cuda", non_blocking=True); queue.put(batch)``: the copy was issued before anybody could
    get the batch. Not if the thread waits on the host for anything in between.
    """
    assert problem.earlier is not None
    giver, taker = judged.op(problem.earlier).lane, judged.op(problem.later).lane
    made = (judged.op(number) for number in judged.numbers(Alloc, before=problem.earlier + 1))
    if not any(op.buffer == problem.buffer and op.lane == giver for op in made if isinstance(op, Alloc)):
        return False
    between = [
        judged.op(number)
        for number in judged.numbers(
            HostSignal, HostWait, *_HOST_SYNCS, first=problem.earlier + 1, before=problem.later
        )
    ]
    if any(isinstance(op, _HOST_SYNCS) and op.lane == giver for op in between):
        return False
    given = {op.monitor for op in between if isinstance(op, HostSignal) and op.lane == giver}
    taken = {op.monitor for op in between if isinstance(op, HostWait) and op.lane == taker}
    return any(judged.trace.monitors[one].kind is MonitorKind.QUEUE for one in given & taken)


def _is_left_by_lock(judged: Judged, earlier: OpId, later: OpId) -> bool:
    """Whether each thread held one lock at its op, which the first gave back before the device was done.

    ``with self.lock: self.total.add_(part)`` on a stream of each thread: who has the lock next comes too
    early, whichever of the two that is. What the host reads or writes is done when the lock is given back.
    """
    if isinstance(judged.op(earlier), HostAccess):
        return False
    held = held_at(judged, earlier) & held_at(judged, later)
    if not held:
        return False
    lane = judged.op(earlier).lane
    for number in judged.numbers(HostSignal, *_HOST_SYNCS, first=earlier + 1, before=later):
        op = judged.op(number)
        if op.lane != lane:
            continue
        if not isinstance(op, HostSignal):
            return False
        held -= {op.monitor}
        if not held:
            return True
    return False


def _is_beside_own_thread(judged: Judged, earlier: OpId, later: OpId) -> bool:
    """Whether a thread goes on beside one that it has started itself, and neither waits for the other.

    ``pool.submit(upload, page)``, then ``page[:] = rows``: the upload comes too late, or is still under way.
    So with one that it has let go on, ``jobs.put(page)``. Not where a caller may have waited in between, or
    the new thread for something else than what it was given.
    """
    child, parent = judged.op(earlier), judged.op(later)
    start = judged.index.starts.get(child.lane)
    spawn = judged.op(start) if start is not None else None
    if start is None or not isinstance(spawn, Spawn) or start > earlier or spawn.lane != parent.lane:
        return False
    if not spawn.at.call == child.at.call == parent.at.call or judged.trace.calls_unseen(start, later):
        return False
    given = {op.monitor for op in _signals(judged, OpId(0), start) if op.lane == parent.lane}
    if any(_may_be_full(judged, op) for op in _signals(judged, start, later) if op.lane == parent.lane):
        return False
    waits = map(judged.op, judged.numbers(HostWait, Join, first=start, before=later))
    both = (child.lane, parent.lane)
    return all(op.lane not in both or _is_own_beginning(op, spawn, given) for op in waits)


def _are_started_together(judged: Judged, problem: Problem) -> bool:
    """Whether one thread started both, one right after the other, and neither may have waited for anything.

    ``list(pool.map(step, batches))``, or ``for t in threads: t.start()``: on the host, they run at once. Not
    where one waits for something, asks for it in a loop or enters a block that is not known, nor where who
    starts them waits in between, nor of a part of some memory: each may have its own (``data[n::4]``).
    """
    assert problem.earlier is not None
    earlier, later = problem.earlier, problem.later
    if problem.buffer is not None and any(
        _regions(judged, number, problem.buffer) for number in (earlier, later)
    ):
        return False
    lanes = judged.op(earlier).lane, judged.op(later).lane
    first, second = (judged.index.starts.get(lane) for lane in lanes)
    if first is None or second is None or not first < second:
        return False
    starts = judged.op(first), judged.op(second)
    if starts[0].lane != starts[1].lane or starts[0].at.call != starts[1].at.call:
        return False
    if judged.trace.calls_unseen(first, later) or any(first < one <= later for one in judged.trace.asking):
        return False
    starter = starts[0].lane
    waits = judged.numbers(Barrier, HostWait, Join, *_HOST_SYNCS, first=first, before=later)
    return not any(
        number < second and judged.op(number).lane == starter
        if isinstance(judged.op(number), _HOST_SYNCS)
        else judged.op(number).lane in lanes
        for number in waits
    )


def _regions(judged: Judged, number: OpId, buffer: BufferId) -> list[Region]:
    """The parts of some memory that an op touches, other than all of it."""
    op = judged.op(number)
    accesses = op.accesses if isinstance(op, (Launch, Copy, HostAccess)) else ()
    return [access.region for access in accesses if access.buffer == buffer and access.region]


def _signals(judged: Judged, first: OpId, before: OpId) -> Iterator[HostSignal]:
    ops = map(judged.op, judged.numbers(HostSignal, first=first, before=before))
    return (op for op in ops if isinstance(op, HostSignal))


def _may_be_full(judged: Judged, put: HostSignal) -> bool:
    """Whether a ``put(x)`` may wait until others have taken what is there: ``queue.Queue(maxsize=1)``."""
    queue = judged.trace.monitors[put.monitor]
    return queue.kind is MonitorKind.QUEUE and queue.count != 0


def _is_own_beginning(wait: Op, spawn: Spawn, given: set[MonitorId]) -> bool:
    """Whether a thread that goes on takes what it was let go on for: ``rows = jobs.get()``."""
    if spawn.goes_on is None or wait.lane != spawn.child:
        return False
    if isinstance(wait, Join):
        return wait.child == spawn.goes_on
    return isinstance(wait, HostWait) and wait.monitor in given


def _done_by_callback(judged: Judged, earlier: OpId, later: OpId) -> bool:
    """Whether a host function in a stream did it, and the other thread then waits for a lock or a queue.

    ``def arrived(_): ready.put(buffer)``: what ``ready.get()`` gives, the function has filled.
    """
    first, second = judged.op(earlier), judged.op(later)
    if not isinstance(first, HostAccess) or judged.stream_at(first) is None:
        return False
    waits = map(judged.op, judged.numbers(HostWait, first=earlier + 1, before=later))
    return any(op.lane == second.lane for op in waits)
