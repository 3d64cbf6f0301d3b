"""Host threads of a trace: which locks one holds, and what one can know of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.trace import (
    MAIN_LANE,
    Barrier,
    HostSignal,
    HostWait,
    Join,
    MonitorId,
    MonitorKind,
    OpId,
    Spawn,
)

if TYPE_CHECKING:
    from streamlint.rules.base import Judged
    from streamlint.trace import LaneId


def held_at(judged: Judged, number: OpId) -> set[MonitorId]:
    """The locks that the thread of an op has at it."""
    lane, held = judged.op(number).lane, set()
    for earlier in judged.numbers(HostWait, HostSignal, before=number):
        op = judged.op(earlier)
        if op.lane == lane and isinstance(op, HostWait):
            held.add(op.monitor)
        elif op.lane == lane and isinstance(op, HostSignal):
            held.discard(op.monitor)
    return {one for one in held if judged.trace.monitors[one].kind is MonitorKind.LOCK}


def may_know(judged: Judged, earlier: OpId, later: OpId) -> bool:
    """Whether the thread of ``later`` may have waited for something that came behind ``earlier``.

    It joined that thread, took what it put into a queue, was started behind it, saw a flag of it, or a third
    thread did; or it called what was not resolved, and may have waited there.
    """
    knows = {judged.op(earlier).lane}
    told: set[MonitorId] = set()
    lane = judged.op(later).lane
    for number in judged.numbers(Spawn, Join, HostSignal, HostWait, Barrier, first=earlier + 1, before=later):
        op = judged.op(number)
        match op:
            case Spawn(child=child) if op.lane in knows:
                knows.add(child)
            case Join(child=child) if child in knows:
                knows.add(op.lane)
            case HostSignal(monitor=monitor) if op.lane in knows:
                told.add(monitor)
            case HostWait(monitor=monitor) if monitor in told and not _is_lock(judged, monitor):
                knows.add(op.lane)
            case Barrier() if op.lane == lane:
                return True
            case _:
                pass
    return lane in knows


def has_twins(judged: Judged, lane: LaneId) -> bool:
    """Whether several threads run what the thread of a lane does: ``for worker in workers: worker.start()``.

    Of those that wait for one queue a path shows only one doing something.
    """
    if lane == MAIN_LANE:
        return judged.trace.run_by_several
    starts = judged.index.starts
    first = _first_start(judged, lane)
    if first is None:
        return False
    here = judged.op(first)
    for other in starts.values():
        twin = judged.op(other)
        if other != first and twin.at.span == here.at.span and twin.at.calls == here.at.calls:
            one, two = sorted((first, other))
            begun = judged.op(one)
            ended = isinstance(begun, Spawn) and _is_joined(judged, begun.child, one, two)
            if not ended:
                return True
    return False


def _first_start(judged: Judged, lane: LaneId) -> OpId | None:
    """Where the thread of a lane was started: where it goes on again it has another lane."""
    start = judged.index.starts.get(lane)
    while start is not None:
        op = judged.op(start)
        if not isinstance(op, Spawn) or op.goes_on is None:
            break
        start = judged.index.starts.get(op.goes_on)
    return start


def _is_joined(judged: Judged, child: LaneId, first: OpId, before: OpId) -> bool:
    joins = (judged.op(number) for number in judged.numbers(Join, first=first, before=before + 2))
    return any(isinstance(op, Join) and op.child == child for op in joins)


def _is_lock(judged: Judged, monitor: MonitorId) -> bool:
    return judged.trace.monitors[monitor].kind is MonitorKind.LOCK
