"""Shared by the rules about memory that goes back to an allocator: who used it, who kept it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.order.hb import Verdict
from streamlint.rules.base import is_return, part, place_of, stream_of
from streamlint.trace import (
    Access,
    Alloc,
    Buffer,
    BufferId,
    Copy,
    Doubt,
    Event,
    Free,
    FreeKind,
    HostEffect,
    KeepAlive,
    LaneId,
    Launch,
    Mode,
    Op,
    OpId,
    Origin,
    Record,
    Space,
    StreamId,
    StreamKind,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from streamlint.rules.base import Judged, Problem

_NONE: frozenset[Doubt] = frozenset()
_SAME = frozenset({Doubt.SAME_STREAM})
_CALLS = frozenset({Doubt.CALLS})


def frees(judged: Judged, kind: FreeKind) -> Iterator[tuple[OpId, Free]]:
    for number, op in enumerate(judged.trace.ops):
        if isinstance(op, Free) and op.kind is kind:
            yield OpId(number), op


def accesses_to(op: Op, buffer: BufferId) -> tuple[Access, ...]:
    if not isinstance(op, (Launch, Copy)):
        return ()
    return tuple(access for access in op.accesses if access.buffer == buffer)


def last_uses(judged: Judged, buffer: BufferId, before: OpId) -> list[OpId]:
    """The last op on each stream that uses the buffer before its free: the one to wait for."""
    last: dict[tuple[StreamId, LaneId], OpId] = {}
    for number in judged.uses(buffer, before=before):
        op = judged.op(number)
        if isinstance(op, (Launch, Copy)):
            last[op.stream, op.lane] = number
    return sorted(last.values())


def used_after(judged: Judged, buffer: BufferId, after: OpId) -> bool:
    """Whether the trace goes on to use the buffer: then it was not the last reference that went."""
    kept = judged.index.kept.get(buffer, [])
    return bool(judged.uses(buffer, first=after + 1) or part(kept, first=after + 1))


def use_doubts(op: Op, buffer: BufferId) -> frozenset[Doubt]:
    return op.doubts.union(*(access.doubts for access in accesses_to(op, buffer)))


def user_and_owner(judged: Judged, problem: Problem) -> tuple[StreamId | None, StreamId | None]:
    """The two streams of a pair; of memory that goes back the later one is its owner's, who gets it again."""
    assert problem.earlier is not None
    later = judged.op(problem.later)
    user = stream_of(judged.op(problem.earlier))
    if isinstance(later, (Alloc, Free)) and problem.buffer is not None:
        return user, judged.trace.buffers[problem.buffer].alloc_stream
    return user, stream_of(later)


def kept_for(judged: Judged, buffer: BufferId, stream: StreamId, before: OpId) -> frozenset[Doubt] | None:
    """Doubts about a missing ``record_stream``; None if the memory is kept back for ``stream``.

    A record on ``default_stream()`` counts for the current stream if the two may be one.
    """
    owner = judged.trace.buffers[buffer].alloc_stream
    doubts = _NONE
    for op in map(judged.op, part(judged.index.kept.get(buffer, []), before=before)):
        if isinstance(op, KeepAlive) and op.stream != owner:
            if op.stream == stream:
                return None
            if _may_be_one(judged, op.stream, stream):
                doubts = _SAME
    return doubts


def kept_alike(judged: Judged, problem: Problem, use: Op) -> bool:
    """Whether memory that the same statement allocates is kept for the stream of the use somewhere.

    ``param.data = source.to(device)``, ``param.data.record_stream(current)``: which of the parameters a walk
    comes by is not always told apart.
    """
    buffers = judged.trace.buffers
    return problem.buffer is not None and any(
        isinstance(op, KeepAlive)
        and op.stream == stream_of(use)
        and buffers[op.buffer].span == buffers[problem.buffer].span
        for op in judged.trace.ops
    )


def _may_be_one(judged: Judged, a: StreamId, b: StreamId) -> bool:
    kinds = {judged.trace.streams[a].kind, judged.trace.streams[b].kind}
    return bool(kinds & {StreamKind.CURRENT, StreamKind.UNKNOWN})


ALLOCATIONS_LOOKED_AT = 12
"""The block that was dropped goes to one of the next allocations."""


def reuse(judged: Judged, use: OpId, free: OpId) -> tuple[OpId, frozenset[Doubt]] | None:
    """The allocation that may get the block of a dropped buffer while ``use`` still runs.

    Any allocation on the stream (or from the pool) that owned the block, up to the one
    that comes after the use. Of several the surest is taken.
    """
    trace = judged.trace
    dropped = trace.ops[free]
    assert isinstance(dropped, Free)
    buffer = trace.buffers[dropped.buffer]
    if judged.hb.ordered(use, free).verdict is Verdict.YES:
        # A thread has waited for the use, and drops the block: whoever gets it then does so behind that.
        return None
    best: tuple[OpId, frozenset[Doubt]] | None = None
    left = ALLOCATIONS_LOOKED_AT
    for number in range(_behind(judged, use, free), len(trace.ops)):
        op = trace.ops[number]
        if is_return(op) and buffer.origin is Origin.ARGUMENT and op.at.call == dropped.at.call:
            # Memory of the caller's: who goes on after the call allocates too.
            return best or _by_caller(judged, use, OpId(number), buffer)
        made = allocated(judged, OpId(number), buffer.alloc_stream)
        if made is None or made.id == buffer.id:
            continue
        if made.home != buffer.home:
            continue
        ordering = judged.hb.ordered(use, OpId(number))
        left -= 1
        if ordering.verdict is Verdict.YES or left < 0:
            break
        if _is_used_behind(judged, use, OpId(number), made.id):
            continue
        doubts = ordering.doubts | op.doubts | _makers_doubts(judged, OpId(number), made.id)
        if best is None or len(doubts) < len(best[1]):
            best = (OpId(number), doubts)
        if not doubts:
            break
    return best or _behind_the_call(judged, use, free, buffer)


def _behind(judged: Judged, use: OpId, free: OpId) -> int:
    """Where what comes after a drop begins: what the names of a function held goes with its return."""
    ops = judged.trace.ops
    last = next((number for number in range(free - 1, use, -1) if not isinstance(ops[number], Free)), use)
    return last if is_return(ops[last]) else free + 1


def _is_used_behind(judged: Judged, use: OpId, alloc: OpId, made: BufferId) -> bool:
    """Whether a block that is allocated too early is used in time: all that touches it comes after ``use``.

    ``tmp = torch.empty_like(x, device="cuda")`` in each pass, which the side stream alone fills. What
    the host does to memory of its own is not always seen.
    """
    buffer = judged.trace.buffers[made]
    if buffer.space.on_host:
        return False
    touching = judged.uses(made, first=alloc)
    # A pool that knows of no streams queues nothing itself: what nobody uses does no harm.
    return (bool(touching) or buffer.pool is not None) and all(
        judged.hb.ordered(use, number).verdict is Verdict.YES for number in touching
    )


def _behind_the_call(
    judged: Judged, use: OpId, free: OpId, buffer: Buffer
) -> tuple[OpId, frozenset[Doubt]] | None:
    """What a call has allocated on its caller's stream, and dropped, the caller may get again at once.

    Not if an event is recorded behind the use: the caller, or the next call, may wait for that first. But for
    one that objects keep to themselves, if the next call drops the memory: ``start()``, then ``close()``. Nor
    where the call had returned before the use: ``backward`` runs later, and the next ``forward`` allocates.
    """
    call, user = judged.op(free).at.call, stream_of(judged.op(use))
    records = judged.numbers(Record, first=use + 1)
    behind = (op for op in map(judged.op, records) if isinstance(op, Record) and op.stream == user)
    events = (judged.trace.events[op.event] for op in behind)
    is_later = judged.op(use).at.call != call
    if any(event.is_named and not (is_later and _is_kept(event)) for event in events):
        return None
    for number in range(use + 1, len(judged.trace.ops)):
        op = judged.trace.ops[number]
        if is_return(op) and op.at.call == call and stream_of(op) == buffer.alloc_stream:
            ordering = judged.hb.ordered(use, OpId(number))
            return None if ordering.verdict is Verdict.YES else (OpId(number), ordering.doubts | _CALLS)
    return None


def _is_kept(event: Event) -> bool:
    """Whether objects or the module keep an event, and no caller has it."""
    return event.holders is not None and not event.handed


def allocated(judged: Judged, number: OpId, stream: StreamId | None) -> Buffer | None:
    """What an op allocates on a stream, or from a pool that knows of none.

    So does an operator of which only later code has shown that it makes a tensor.
    """
    op = judged.op(number)
    if not isinstance(op, (Alloc, Launch)) or op.stream != stream:
        return None
    if isinstance(op, Alloc):
        return judged.trace.buffers[op.buffer]
    for access in op.accesses:
        made = judged.trace.buffers[access.buffer]
        is_new = made.origin is Origin.RESULT and made.span is None and made.alloc_stream == op.stream
        if is_new and access.mode is Mode.WRITE and judged.uses(made.id)[0] == number:
            return made
    return None


def _by_caller(
    judged: Judged, use: OpId, number: OpId, buffer: Buffer
) -> tuple[OpId, frozenset[Doubt]] | None:
    ordering = judged.hb.ordered(use, number)
    if stream_of(judged.op(number)) != buffer.alloc_stream or ordering.verdict is Verdict.YES:
        return None
    return number, ordering.doubts


def _makers_doubts(judged: Judged, alloc: OpId, buffer: BufferId) -> frozenset[Doubt]:
    """What must be assumed for the allocation to happen: an unresolved call makes a new tensor."""
    uses = judged.uses(buffer, first=alloc + 1)
    return use_doubts(judged.op(uses[0]), buffer) if uses else _NONE


def owner_doubts(judged: Judged, buffer: BufferId) -> frozenset[Doubt]:
    """What must be assumed for ``alloc_stream`` to own the memory.

    An unresolved call may return what it was given, and ``x.to(device)`` returns ``x`` if it is
    there already (``non_blocking=True`` tells of a host tensor, which is copied).
    """
    trace = judged.trace
    uses = judged.uses(buffer)
    first = judged.op(uses[0]) if uses else None
    if first is not None and Doubt.OPAQUE in first.doubts:
        return frozenset({Doubt.GUESSED})
    if (
        isinstance(first, Copy)
        and trace.buffers[first.src.buffer].space is Space.UNKNOWN
        and first.host is not HostEffect.ASYNC
    ):
        return frozenset({Doubt.ALIAS})
    return _NONE


def settled_elsewhere(problem: Problem, judged: Judged, other: Judged) -> bool:
    """Whether another path keeps the memory back at the same place, or orders its reuse.

    Then a condition decides (``if x.is_cuda: x.record_stream(s)``), and it may be the right one. A path that
    uses it on its owner's own stream (``if side == torch.cuda.current_stream()``) has nobody to keep it for.
    """
    later = judged.op(problem.later)
    if isinstance(later, KeepAlive):
        return any(
            isinstance(op, KeepAlive)
            and op.at.span == later.at.span
            and other.trace.buffers[op.buffer].alloc_stream != op.stream
            for op in other.trace.ops
        )
    assert problem.earlier is not None
    use = judged.op(problem.earlier)
    operands = {n for n, access in enumerate(_operands(use)) if problem.buffer in (None, access.buffer)}
    return any(_settled(other, number, operands, later) for number in other.places.get(place_of(use), ()))


def _operands(op: Op) -> tuple[Access, ...]:
    return op.accesses if isinstance(op, (Launch, Copy)) else ()


def _settled(other: Judged, use: OpId, operands: Container[int], later: Op) -> bool:
    """``operands``: which of those of the use the problem is about."""
    op = other.op(use)
    stream = stream_of(op)
    buffers = {access.buffer for n, access in enumerate(_operands(op)) if n in operands}
    if buffers and all(other.trace.buffers[buffer].alloc_stream == stream for buffer in buffers):
        return False
    kept = any(
        isinstance(candidate, KeepAlive) and candidate.buffer in buffers and candidate.stream == stream
        for candidate in other.trace.ops
    )
    # if self.stream is None: the copy allocates where its owner uses it, and nothing has to be ordered.
    return kept or any(
        other.hb.ordered(use, number).verdict is Verdict.YES
        for number in other.places.get(place_of(later), ())
        if stream is None or allocated(other, number, stream) is None
    )
