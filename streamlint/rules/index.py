"""What the rules and doubts look for again and again on one path, looked up instead of searched for.

A function may have thousands of unordered pairs. What goes over all operations for each of them takes
minutes where this takes a second.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from streamlint.frozen import frozen
from streamlint.rules.base import is_entry, is_return, stream_of
from streamlint.trace import (
    Barrier,
    Callback,
    Copy,
    Doubt,
    HostAccess,
    KeepAlive,
    LaneId,
    Launch,
    OpId,
    Record,
    Spawn,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.order.hb import HappensBefore
    from streamlint.trace import BufferId, Op, StreamId


@frozen()
class Index:
    """Numbers of operations, each list in order."""

    of_kind: dict[type[Op], list[OpId]] = field(default_factory=dict)
    of_stream: dict[StreamId, list[OpId]] = field(default_factory=dict)
    of_buffer: dict[BufferId, list[OpId]] = field(default_factory=dict)
    """Launches and copies by what they use."""
    by_host: dict[BufferId, list[OpId]] = field(default_factory=dict)
    """What the host does, by what it touches."""
    kept: dict[BufferId, list[OpId]] = field(default_factory=dict)
    """What keeps memory back: ``x.record_stream(side)``."""
    waits: dict[StreamId, list[OpId]] = field(default_factory=dict)
    """Waits by the stream that waits ..."""
    waits_for: dict[tuple[StreamId, StreamId], list[OpId]] = field(default_factory=dict)
    """... and by that and the stream of the record that they see."""
    last_waits: dict[tuple[StreamId, LaneId], OpId] = field(default_factory=dict)
    """The last wait of a stream, of those that a lane issued."""
    records: dict[StreamId, list[OpId]] = field(default_factory=dict)
    last_work: dict[tuple[StreamId, int, LaneId], OpId] = field(default_factory=dict)
    """The last op of a stream within a call from outside, of those that a lane issued."""
    bodies: dict[LaneId, StreamId] = field(default_factory=dict)
    """The stream in which a host function runs, by its lane."""
    starts: dict[LaneId, OpId] = field(default_factory=dict)
    """Where threads are started."""
    signals: list[OpId] = field(default_factory=list)
    """Where kernels may wait for values in memory."""

    @classmethod
    def of(cls, ops: Sequence[Op], hb: HappensBefore) -> Index:
        made = cls()
        for position, op in enumerate(ops):
            number = OpId(position)
            made.of_kind.setdefault(type(op), []).append(number)
            stream = stream_of(op)
            if stream is not None:
                made.of_stream.setdefault(stream, []).append(number)
                if not is_entry(op) and not is_return(op):
                    made.last_work[stream, op.at.call, op.lane] = number
            match op:
                case Launch() | Copy() | HostAccess():
                    uses = made.by_host if isinstance(op, HostAccess) else made.of_buffer
                    for buffer in dict.fromkeys(access.buffer for access in op.accesses):
                        uses.setdefault(buffer, []).append(number)
                case Wait():
                    made._add_wait(number, op, ops, hb)
                case Record():
                    made.records.setdefault(op.stream, []).append(number)
                case Callback():
                    made.bodies[op.body] = op.stream
                case KeepAlive():
                    made.kept.setdefault(op.buffer, []).append(number)
                case Spawn():
                    made.starts[op.child] = number
                case Barrier(why=Doubt.SIGNAL):
                    made.signals.append(number)
                case _:
                    pass
        return made

    def _add_wait(self, number: OpId, op: Wait, ops: Sequence[Op], hb: HappensBefore) -> None:
        self.waits.setdefault(op.stream, []).append(number)
        self.last_waits[op.stream, op.lane] = number
        record = hb.record_seen_by(number)
        recorded = ops[record] if record is not None else None
        if isinstance(recorded, Record):
            self.waits_for.setdefault((op.stream, recorded.stream), []).append(number)
