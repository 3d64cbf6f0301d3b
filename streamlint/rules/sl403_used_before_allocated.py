"""SL403 used-before-allocated."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint.finding import Severity
from streamlint.order.hb import Ordering, Verdict
from streamlint.rules import lifetimes
from streamlint.rules.base import (
    About,
    Judged,
    Note,
    Problem,
    Rule,
    is_entry,
    last_barrier,
    on,
    quoted,
    stream_of,
)
from streamlint.trace import (
    Alloc,
    AllocKind,
    BufferId,
    Copy,
    Doubt,
    Free,
    FreeKind,
    Launch,
    OpId,
    Provenance,
    SyncDevice,
    SyncStream,
)
from streamlint.witness import NoWitness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.trace import Op, StreamId

Pending: TypeAlias = "tuple[OpId, frozenset[Doubt]]"
"""An op that may still use a block which an allocation gets, with what speaks against that."""


def check(judged: Judged) -> Iterator[Problem]:
    raced = {(conflict.later, conflict.buffer) for conflict in judged.conflicts}
    for number, op in enumerate(judged.trace.ops):
        # What caching allocators hand out was allocated before; there the question is who used it last.
        if isinstance(op, Alloc) and op.stream is not None and op.kind is AllocKind.QUEUED:
            for use in _first_uses(judged, OpId(number), op):
                # A race with a write on the allocating stream shows the same missing edge, and says more.
                if (use, op.buffer) not in raced:
                    yield from _judge(judged, OpId(number), op, op.stream, use)
    yield from _recycled(judged)


def _recycled(judged: Judged) -> Iterator[Problem]:
    """Fresh memory of a caching allocator that another stream uses first, and too early.

    The block may have been given back by code whose last kernel on the allocating stream has not run yet:
    on that stream this is no matter, on another one it is. The op before the call stands for such kernels;
    a recording tells whose memory an allocation got.
    """
    pending = OpId(0)
    recorded = judged.trace.provenance is Provenance.OBSERVED
    left: dict[StreamId, Free] = {}
    fresh: dict[BufferId, tuple[OpId, list[Pending]]] = {}
    for number, op in enumerate(judged.trace.ops):
        if is_entry(op):
            pending = OpId(number)
        elif isinstance(op, Free) and op.kind is FreeKind.DROPPED and not recorded:
            home = judged.trace.buffers[op.buffer].alloc_stream
            if home is not None:
                left[home] = op
        elif isinstance(op, Alloc) and op.kind is AllocKind.CACHED and op.stream is not None:
            fresh[op.buffer] = (
                OpId(number),
                list(_pending(judged, OpId(number), op, left.get(op.stream), pending)),
            )
        elif isinstance(op, (Launch, Copy)):
            for buffer in {access.buffer for access in op.accesses} & fresh.keys():
                alloc, before = fresh.pop(buffer)
                yield from _judge_recycled(judged, alloc, before, OpId(number))


def _pending(judged: Judged, number: OpId, alloc: Alloc, left: Free | None, entry: OpId) -> Iterator[Pending]:
    """What may still use a fresh block: the last user of memory that was seen to go back, and unseen ones."""
    made = judged.trace.buffers[alloc.buffer]
    if alloc.reuses is not None:
        yield from _by_owner(judged, number, alloc, alloc.reuses)
    if left is not None and judged.trace.buffers[left.buffer].device == made.device:
        for use, doubts in _by_owner(judged, number, alloc, left.buffer):
            yield use, left.doubts | doubts
    if stream_of(judged.op(entry)) == alloc.stream:
        yield entry, frozenset({Doubt.ARGUMENT})


def _by_owner(judged: Judged, number: OpId, alloc: Alloc, old: BufferId) -> Iterator[Pending]:
    """The last use of the memory on the allocating stream. The drop had to wait for that of others."""
    for use in lifetimes.last_uses(judged, old, number):
        if stream_of(judged.op(use)) == alloc.stream:
            yield use, lifetimes.use_doubts(judged.op(use), old)


def _judge_recycled(judged: Judged, number: OpId, pending: list[Pending], use: OpId) -> Iterator[Problem]:
    alloc, op = judged.op(number), judged.op(use)
    assert isinstance(alloc, Alloc)
    assert alloc.stream is not None
    if judged.trace.buffers[alloc.buffer].space.on_host or stream_of(op) == alloc.stream:
        return
    found = ((before, doubts, judged.hb.ordered(before, use)) for before, doubts in pending)
    open_ = [
        (before, doubts | ordering.doubts)
        for before, doubts, ordering in found
        if ordering.verdict is not Verdict.YES
    ]
    if not open_:
        return
    # Of two with equally many doubts the unseen one: callers may show it.
    before, doubts = min(reversed(open_), key=lambda one: len(one[1]))
    judged = judged.seen_from(use, before)
    name, owner = quoted(judged.buffer_name(alloc.buffer)), quoted(judged.stream_name(alloc.stream))
    yield Problem(
        later=use,
        earlier=before,
        buffer=alloc.buffer,
        message=f"{name} is used {on(judged, op)} while {owner} may still be using the memory that it got",
        label=f"used {on(judged, op)}",
        help=f"make {_user(judged, op)} wait for {owner} after the allocation",
        notes=(Note(alloc.at.span, f"allocated here, from memory whose last user on {owner} may still run"),),
        doubts=doubts | alloc.doubts | lifetimes.use_doubts(op, alloc.buffer),
    )


def _user(judged: Judged, op: Op) -> str:
    stream = stream_of(op)
    assert stream is not None
    return quoted(judged.stream_name(stream))


def _first_uses(judged: Judged, alloc: OpId, op: Alloc) -> list[OpId]:
    """The first op of each other stream that uses the buffer."""
    first: dict[StreamId, OpId] = {}
    for number in range(alloc + 1, len(judged.trace.ops)):
        use = judged.trace.ops[number]
        if (
            isinstance(use, (Launch, Copy))
            and use.stream != op.stream
            and lifetimes.accesses_to(use, op.buffer)
        ):
            first.setdefault(use.stream, OpId(number))
    return sorted(first.values())


def _judge(judged: Judged, number: OpId, alloc: Alloc, stream: StreamId, use: OpId) -> Iterator[Problem]:
    ordering = _ordered(judged, number, stream, use)
    if ordering.verdict is Verdict.YES:
        return
    op = judged.op(use)
    judged = judged.seen_from(use, number)
    name, owner = quoted(judged.buffer_name(alloc.buffer)), quoted(judged.stream_name(stream))
    notes = [Note(alloc.at.span, f"allocated in order of {owner} here")]
    yield Problem(
        later=use,
        earlier=number,
        buffer=alloc.buffer,
        message=f"{name} is used {on(judged, op)} before its allocation on {owner} may have happened",
        label=f"used {on(judged, op)}",
        help=f"make {_user(judged, op)} wait for {owner} (record an event on {owner} after the allocation)",
        notes=(*notes, *last_barrier(judged, number, use)),
        doubts=ordering.doubts | alloc.doubts | lifetimes.use_doubts(op, alloc.buffer),
    )


def _ordered(judged: Judged, number: OpId, stream: StreamId, use: OpId) -> Ordering:
    """Whether the use comes after the allocation, or after anything that comes after it on its stream.

    An allocation is no work: a synchronize of its stream right after it has nothing to wait for, and
    covers the allocation all the same.
    """
    best = judged.hb.ordered(number, use)
    for between in range(number + 1, use):
        if best.verdict is Verdict.YES:
            break
        op = judged.op(OpId(between))
        covers = stream_of(op) == stream or (
            (isinstance(op, SyncStream) and op.stream == stream)
            or (isinstance(op, SyncDevice) and op.device == judged.trace.streams[stream].device)
        )
        if not covers:
            continue
        ordering = judged.hb.ordered(OpId(between), use)
        if ordering.verdict is Verdict.YES and op.doubts:
            ordering = Ordering(Verdict.UNKNOWN, op.doubts)
        if ordering.verdict is not Verdict.NO:
            best = ordering
    return best


RULE = Rule(
    code="SL403",
    name="used-before-allocated",
    summary="memory used on a stream that is not ordered after its allocation",
    severity=Severity.ERROR,
    about=About.ORDER,
    check=check,
    witness=NoWitness("the pool hands out the address at once, and most often nobody else uses the memory"),
    doc="""\
## What it does
Reports memory of `cudaMallocAsync` that is used on another stream than the one that orders the
allocation, without a wait between the two. Reports as well fresh memory of a caching allocator
(`torch.empty(...)`) that another stream uses first, without waiting for the stream that allocated it.

## Why is this bad?
The pointer of `cudaMallocAsync` is valid from the moment when the stream gets to the allocation. Before
that the memory may be unmapped, or still belong to a block that earlier work of the stream uses.

A caching allocator hands out a block as soon as the last tensor in it is dropped, though kernels that use
it may still be pending. On the stream that allocates, new work comes after them; on another one it need not.

## Example
```python
p = check(cudart.cudaMallocAsync(size, a))
check(cudart.cudaMemsetAsync(p, 0, size, b))        # `b` does not wait for `a`
```

Use instead:
```python
p = check(cudart.cudaMallocAsync(size, a))
check(cudart.cudaEventRecord(allocated, a))
check(cudart.cudaStreamWaitEvent(b, allocated, 0))
check(cudart.cudaMemsetAsync(p, 0, size, b))
```

```python
buffer = torch.empty(n, device="cuda")
side.wait_stream(torch.cuda.current_stream())       # after the allocation
with torch.cuda.stream(side):
    buffer.copy_(pinned, non_blocking=True)
torch.cuda.current_stream().wait_stream(side)
```

## Limits
Where a temporary of the allocating stream was dropped before the allocation, the block may be the
temporary's, and its last kernel is what has to be waited for. Else it is not known of caching allocators who
used a block last: then it is reported where the current stream waits for the use afterwards, or an event is
recorded behind it, or the memory is kept for the stream; otherwise it is only `possible`. So it is in a
function that makes the stream itself, or has an object of its own make it, and is given no memory: it may
run once, before all else. A generator that yields what it allocates does not.

## Source
[Stream-ordered memory allocator](https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/stream-ordered-memory-allocation.html);
[Tensor.record_stream](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.record_stream.html):
a block goes back to the stream that allocated it, and is in order with the work of that stream only.
""",
)
