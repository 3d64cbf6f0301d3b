"""What other paths of an entry say of a pair that one path leaves unordered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.judging.edges import stream_key
from streamlint.order.hb import Verdict
from streamlint.rules import lifetimes
from streamlint.rules.base import is_entry, place_of, stream_of
from streamlint.trace import (
    QUERY,
    Alloc,
    BeginCapture,
    Copy,
    CudaCall,
    Free,
    HostAccess,
    KeepAlive,
    Launch,
    OpId,
    Overlap,
    Record,
    SyncEvent,
    Wait,
    overlap,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.rules.base import Judged, Problem


def signal(problem: Problem, judged: Judged, paths: Sequence[Judged]) -> bool:
    """Whether kernels of a path with the two places may wait for values in memory: no event shows that order.

    A capture stores the value with another call: ``if capturing: memset32(flag) else: write_value32(flag)``.
    """
    assert problem.earlier is not None
    return bool(judged.index.signals) or any(
        other.index.signals
        and _same_place(other, judged, problem.earlier)
        and _same_place(other, judged, problem.later)
        for other in paths
        if other is not judged
    )


def order(problem: Problem, judged: Judged, paths: Sequence[Judged]) -> bool:
    """Whether another path orders the same two places, on the same streams.

    Then some condition decides about the synchronization, and it may be the one that decides
    whether there is anything to wait for.
    """
    assert problem.earlier is not None
    if isinstance(judged.op(problem.later), (Alloc, Free, KeepAlive)):
        # def offload(x, release=False), which keeps x for the stream where it releases it: the path of a
        # caller who does not set that flag is one that is taken, whatever other flags it sets.
        return any(
            lifetimes.settled_elsewhere(problem, judged, other)
            for other in paths
            if other is not judged and other.trace.flags <= judged.trace.flags
        )
    # A pair that shares no memory is about what the earlier op may use of memory given back since.
    shares = _meet(judged, problem.earlier, problem.later)
    captures = _captures(judged, problem.earlier, problem.later)
    for other in paths:
        if other is judged or _differ_by_answers(other, judged):
            continue
        if other.trace.is_captured and not judged.trace.is_captured:
            # if torch.cuda.is_current_stream_capturing(): side.wait_stream(current): without that the graph
            # would not have what side does. It says nothing of a call that nobody captures.
            continue
        for a in _same_place(other, judged, problem.earlier):
            for b in _same_place(other, judged, problem.later):
                if a < b and _meet(other, a, b) >= shares and _is_settled(other, a, b, captures=captures):
                    return True
    return False


def _captures(judged: Judged, a: OpId, b: OpId) -> bool:
    """Whether a graph is captured between two operations."""
    return bool(judged.numbers(BeginCapture, first=a, before=b))


def _differ_by_answers(other: Judged, judged: Judged) -> bool:
    """Whether all that two paths decide otherwise is what ``query()`` answers: it may answer this or that.

    ``for _ in range(3): if event.query(): break``, and then the page is read, whether it was done or not.
    """
    if judged.trace.left_elements:
        return False
    one, two = ([told for told in path.trace.path if not told.startswith(QUERY)] for path in (other, judged))
    return one == two


def _is_settled(other: Judged, a: OpId, b: OpId, *, captures: bool) -> bool:
    """Whether a path orders two operations: surely, or by an event that its caller hands in with the memory.

    ``if task.ready is not None: side.wait_event(task.ready)``: without one, nothing is pending. What a path
    waits for to capture a graph between the two says nothing of one that does not (``captures``): ``if
    self.graph is None: self._capture(x)``, which says ``torch.cuda.synchronize()``.
    """
    if _captures(other, a, b) and not captures:
        return False
    if other.hb.ordered(a, b).verdict is Verdict.YES:
        return True
    waits = (op for op in other.trace.ops[a + 1 : b] if isinstance(op, (Wait, SyncEvent)))
    return is_entry(other.op(a)) and any(other.trace.events[op.event].span is None for op in waits)


def _same_place(other: Judged, judged: Judged, number: OpId) -> list[OpId]:
    op = judged.op(number)
    if not isinstance(op, (Launch, Copy, HostAccess, Record, CudaCall)):
        return []
    streams = _stream_key(judged, number), _caller_key(judged, number)
    return [
        here
        for here in other.places.get(place_of(op), ())
        if (_stream_key(other, here), _caller_key(other, here)) == streams
    ]


def _stream_key(judged: Judged, number: OpId) -> object:
    stream = stream_of(judged.op(number))
    if stream is None:
        return None
    return stream_key(judged.trace.streams[stream])


def _caller_key(judged: Judged, number: OpId) -> object:
    """The stream that a call lets its own stream wait for: a collective begins behind the current one.

    ``with torch.cuda.stream(comm) if overlap else nullcontext(): dist.all_reduce(x, async_op=True)``: on one
    path it comes behind the stream that has written ``x``, and on the other behind ``comm``.
    """
    if not number or not isinstance(wait := judged.op(OpId(number - 1)), Wait):
        return None
    op, record = judged.op(number), judged.hb.record_seen_by(OpId(number - 1))
    if record is None or not (op.at.span == wait.at.span == judged.op(record).at.span):
        return None
    return _stream_key(judged, record)


def _meet(judged: Judged, a: OpId, b: OpId) -> bool:
    first, second = judged.op(a), judged.op(b)
    if not isinstance(first, (Launch, Copy, HostAccess)) or not isinstance(
        second, (Launch, Copy, HostAccess)
    ):
        return False
    return any(
        x.buffer == y.buffer
        and (x.mode.writes or y.mode.writes)
        and overlap(x.region, y.region) is not Overlap.NO
        for x in first.accesses
        for y in second.accesses
    )
