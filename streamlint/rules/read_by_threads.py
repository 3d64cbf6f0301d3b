"""Memory that a thread was given to read, and that a stream overwrites before anybody has waited for it.

``pool.submit(save, page, copied)``, and ``page.copy_(x, non_blocking=True)`` of the next step: the thread
waits for the copy behind which it was started, and may come to the page when the next one has written it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.order.conflicts import ConflictKind
from streamlint.order.hb import Verdict
from streamlint.rules.told_too_early import told_by
from streamlint.trace import (
    Barrier,
    Callback,
    Copy,
    HostAccess,
    HostSignal,
    HostWait,
    Join,
    Launch,
    MonitorKind,
    OpId,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.order.conflicts import Conflict
    from streamlint.rules.base import Judged
    from streamlint.source import Span
    from streamlint.trace import LaneId, MonitorId


def overwritten(judged: Judged) -> Iterator[Conflict]:
    """What a thread reads and the one that has started it, or let it go on, has a stream overwrite."""
    for conflict in judged.conflicts:
        read, write = judged.op(conflict.earlier), judged.op(conflict.later)
        start = judged.index.starts.get(read.lane)
        if (
            conflict.kind is ConflictKind.WRITE_AFTER_READ
            and conflict.ordering.verdict is Verdict.NO
            and isinstance(read, HostAccess)
            and not isinstance(write, HostAccess)
            and start is not None
            and start < conflict.earlier
            and judged.op(start).at.call == read.at.call == write.at.call
            and _began(judged, start, write.lane)
            and not _may_wait(judged, write.lane, start, conflict.later)
            and _goes_on(judged, read.lane, start, conflict.earlier)
            # What a host function has told the thread too early, SL201 says.
            and told_by(judged, conflict.earlier, conflict.later) is None
        ):
            yield conflict


def _began(judged: Judged, start: OpId, lane: LaneId) -> bool:
    """Whether a lane has started a thread, or queued the host function that let it go on."""
    by = judged.op(start).lane
    queued = (judged.op(number) for number in judged.numbers(Callback, before=start))
    return by == lane or any(isinstance(op, Callback) and op.body == by and op.lane == lane for op in queued)


def _may_wait(judged: Judged, lane: LaneId, start: OpId, before: OpId) -> bool:
    """Whether a lane waits for others meanwhile, or calls what is not seen.

    Who puts something into a queue that holds few waits until there is room: ``queue.Queue(maxsize=2)``.
    """
    if judged.trace.calls_unseen(start, before):
        return True
    since = _put_before(start)
    for number in judged.numbers(HostSignal, HostWait, Join, Barrier, first=since, before=before):
        op = judged.op(number)
        is_queued = isinstance(op, HostSignal) and not _holds_few(judged, op.monitor)
        if op.lane == lane and not is_queued:
            return True
    return False


def _put_before(start: OpId) -> OpId:
    """Where the ``put()`` stands that lets a thread go on: right before its start. It may wait, too."""
    return OpId(max(start - 1, 0))


def _holds_few(judged: Judged, monitor: MonitorId) -> bool:
    one = judged.trace.monitors[monitor]
    return one.kind is MonitorKind.QUEUE and one.count != 0


def _goes_on(judged: Judged, lane: LaneId, start: OpId, before: OpId) -> bool:
    """Whether all that a thread waits for, before it reads, others had given it by then.

    A thread that waits for a flag, ``written.wait()``, stands in the trace where it was started.
    """
    given: set[MonitorId] = set()
    for number in judged.numbers(HostSignal, HostWait, Barrier, before=before):
        match judged.op(number):
            case HostSignal(monitor=monitor):
                given.add(monitor)
            case HostWait(lane=by, monitor=monitor) if by == lane and number > start and monitor not in given:
                return False
            case Barrier(lane=by) if by == lane and number > start:
                return False
            case _:
                pass
    return True


def settled(judged: Judged, write: OpId) -> Callable[[Judged], bool]:
    """Whether another path waits for somebody, before the same place, where this one does not.

    ``if len(self.jobs) == self.limit: self.jobs.pop(0).result()``
    """
    place, here = judged.op(write).at.span, _waits_before(judged, write)

    def waits(other: Judged) -> bool:
        same = [n for n in other.numbers(Copy, Launch) if other.op(n).at.span == place]
        return bool(same) and not _waits_before(other, same[-1]) <= here

    return waits


def _waits_before(judged: Judged, before: OpId) -> set[Span]:
    lane = judged.op(before).lane
    waits = map(judged.op, judged.numbers(HostWait, Join, before=before))
    return {op.at.span for op in waits if op.lane == lane}
