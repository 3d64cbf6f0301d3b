"""Events that are recorded while a group of communication is open: what the group queues comes behind them.

``nccl.groupStart(); comm.recv(..., stream); done.record(stream); nccl.groupEnd()``: who waits for ``done``
waits for what ``stream`` had before the group
(https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/groups.html).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.rules.base import Judged, Note, Problem, stream_of
from streamlint.trace import Launch, OpId, Record, SyncEvent, Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.source import Span


def problems(judged: Judged) -> Iterator[Problem]:
    """One for each record in a group that is waited for, where the group races with what is behind that."""
    seen: set[Span] = set()
    for number in judged.numbers(Wait, SyncEvent):
        record = judged.hb.record_seen_by(number)
        recorded = judged.op(record) if record is not None else None
        if (
            record is None
            or not isinstance(recorded, Record)
            or not recorded.group
            or recorded.at.span in seen
        ):
            continue
        races = _races(judged, recorded, number)
        if races:
            seen.add(recorded.at.span)
            yield _problem(judged, record, number, races)


def races_behind(judged: Judged, wait: OpId) -> frozenset[tuple[OpId, OpId]]:
    """The races that come after the wait on the stream that was meant to wait, or on the host."""
    waiting = stream_of(judged.op(wait))
    return frozenset(
        (conflict.earlier, conflict.later)
        for conflict in judged.conflicts
        if conflict.later > wait and stream_of(judged.op(conflict.later)) == waiting
    )


def _races(judged: Judged, record: Record, wait: OpId) -> frozenset[tuple[OpId, OpId]]:
    """What is used behind the wait while calls of the group may not be done with it."""
    return frozenset(pair for pair in races_behind(judged, wait) if _is_called_in(judged, pair[0], record))


def _is_called_in(judged: Judged, number: OpId, record: Record) -> bool:
    op = judged.op(number)
    return isinstance(op, Launch) and op.group == record.group and op.stream == record.stream


def _problem(judged: Judged, record: OpId, wait: OpId, races: frozenset[tuple[OpId, OpId]]) -> Problem:
    recorded, waits = judged.op(record), judged.op(wait)
    assert isinstance(recorded, Record)
    name = judged.seen_from(record, wait).event_name(recorded.event)
    first = min(races)
    called = judged.op(first[0])
    doubts = min(
        (one.doubts for one in judged.conflicts if (one.earlier, one.later) in races),
        key=len,
        default=frozenset(),
    )
    return Problem(
        later=wait,
        primary=record,
        message=f"{name} is recorded before the group is queued: to wait for it is not to wait for the group",
        label="stands for nothing of the group",
        help=f"record {name} when the group has ended",
        notes=(
            Note(called.at.span, "called here, and queued when the group ends"),
            Note(waits.at.span, "waited for here"),
        ),
        doubts=recorded.doubts | waits.doubts | doubts,
        explains=races,
    )
