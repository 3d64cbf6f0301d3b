"""Results that consumers have by the time that a stream gets their memory again, or fills it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.judging.forgotten_ends import source
from streamlint.judging.owners import is_own, plain_name
from streamlint.rules.base import Judged, Problem, is_handed_out, is_return, stream_of
from streamlint.trace import (
    Alloc,
    Copy,
    Op,
    OpId,
    Origin,
    Purpose,
    Space,
    StreamId,
    StreamKind,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from streamlint.interp.entries.runs import Entry


def is_handed_on(judged: Judged, problem: Problem, entry: Entry) -> bool:
    """Whether the earlier op is what a consumer does with memory that a side stream gets again, or refills.

    ``torch.cuda.current_stream().wait_stream(self.side)`` before the result is handed out says that it is
    used on the current stream. So does ``torch.cuda.default_stream().wait_stream(self.side)``: whoever wrote
    that takes the one for the other. So does a wait of the host behind an upload, if nobody else works on
    that stream: for what it does next itself no wait is needed. What was computed the host may want to read.
    Who calls it in sight is judged there.
    """
    assert problem.earlier is not None
    use, later = judged.op(problem.earlier), judged.op(problem.later)
    if not is_handed_out(use) or problem.buffer is None:
        return False
    side = _takes_again(judged, problem, later, entry)
    if side is None:
        return False
    numbers = judged.numbers(Wait, SyncStream, SyncEvent, before=problem.earlier)
    waits = [number for number in numbers if judged.op(number).at.call == use.at.call]
    if any(_waits_like(judged, number, use) and source(judged, number) == side for number in waits):
        return True
    if entry.order_in_sight or entry.loop_in_sight or entry.has_callers:
        return False
    alone = plain_name(judged.trace.streams[side]) not in entry.entered_elsewhere
    return alone and any(_host_waits_for_upload(judged, problem, number, side) for number in waits)


def _waits_like(judged: Judged, number: OpId, use: Op) -> bool:
    """Whether a stream waits that stands for the one on which a consumer uses what it gets."""
    op = judged.op(number)
    return isinstance(op, Wait) and (
        op.stream == stream_of(use) or judged.trace.streams[op.stream].kind is StreamKind.LEGACY
    )


def _host_waits_for_upload(judged: Judged, problem: Problem, number: OpId, side: StreamId) -> bool:
    """Whether the host waits for a stream that has brought up the memory, or allocated it, and no more."""
    op = judged.op(number)
    assert problem.buffer is not None
    if not is_explicit_wait(op) or judged.uses(problem.buffer, first=number, before=problem.earlier):
        return False
    made = [judged.op(use) for use in judged.uses(problem.buffer, before=number)]
    brought = all(isinstance(one, Copy) and _may_be_from_host(judged, one) for one in made)
    return brought and side == (op.stream if isinstance(op, SyncStream) else source(judged, number))


def _may_be_from_host(judged: Judged, copy: Copy) -> bool:
    return judged.trace.buffers[copy.src.buffer].space is not Space.DEVICE


def is_explicit_wait(op: Op) -> bool:
    """Whether code lets the host wait, or asks until the answer is yes; not a copy that blocks."""
    return isinstance(op, (SyncStream, SyncEvent, SyncDevice)) and op.purpose in (
        Purpose.ORDER,
        Purpose.ANSWER,
    )


def is_filled_again(judged: Judged, problem: Problem, entry: Entry) -> bool:
    """Whether a call lets the current stream wait for what it hands out, and then has it filled again.

    ``[self.next_batch() for _ in range(n)]`` of a ring with two slots: who gets the list uses it after that.
    """
    assert problem.earlier is not None
    refill, end = judged.op(problem.earlier), judged.op(problem.later)
    side, current = stream_of(refill), stream_of(end)
    if not is_return(end) or refill.at.call != end.at.call or problem.buffer is None or side is None:
        return False
    if (
        not is_own(judged.trace, side, entry)
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
    return side if side is not None and own and is_own(judged.trace, side, entry) else None
