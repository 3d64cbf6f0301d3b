"""SL401 missing-record-stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules import lifetimes
from streamlint.rules.base import (
    About,
    Judged,
    Note,
    Problem,
    Rule,
    is_entry,
    is_handed_out,
    is_return,
    last_barrier,
    quoted,
    stream_of,
)
from streamlint.trace import Copy, FreeKind, Launch, Space
from streamlint.witness import ByReuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.trace import Buffer, Free, Op, OpId, StreamId


def check(judged: Judged) -> Iterator[Problem]:
    for number, free in lifetimes.frees(judged, FreeKind.DROPPED):
        buffer = judged.trace.buffers[free.buffer]
        if (buffer.alloc_stream is None and buffer.pool is None) or lifetimes.used_after(
            judged, free.buffer, number
        ):
            continue
        for use in lifetimes.last_uses(judged, free.buffer, number):
            problem = _judge(judged, use, number, free)
            if problem is not None:
                yield problem


def _judge(judged: Judged, use: OpId, number: OpId, free: Free) -> Problem | None:
    op = judged.op(use)
    stream = stream_of(op)
    buffer = judged.trace.buffers[free.buffer]
    if stream is None or stream == buffer.alloc_stream or _is_awaited(op, buffer):
        return None
    kept = lifetimes.kept_for(judged, free.buffer, stream, number)
    reused = lifetimes.reuse(judged, use, number)
    if kept is None or reused is None:
        return None
    alloc, doubts = reused
    judged = judged.seen_from(use, number)
    name = quoted(judged.buffer_name(free.buffer))
    user = quoted(judged.stream_name(stream))
    owner, place, remedy = _owner(judged, buffer, stream)
    # What owners queue between two calls no statement in sight does: the one that lets go is the place.
    between = is_entry(op) and buffer.lent
    notes = [
        Note(op.at.span, f"what was queued on {user} before this call may still use {name}")
        if between
        else Note(free.at.span, _dropped(judged, name, free, op)),
        Note(judged.op(alloc).at.span, f"{_what(judged, alloc)} {place} may get the same memory"),
    ]
    return Problem(
        # What the caller does next is not in the trace: it may begin with the drop.
        later=number if is_return(judged.op(alloc)) else alloc,
        earlier=use,
        primary=number if between else use,
        buffer=free.buffer,
        message=f"{name} may still be in use on {user} when it goes back to {owner}",
        label="goes back to the allocator here" if between else _used(op, user),
        help=f"keep a reference until the use is done, or {remedy}",
        statement=_kept(judged, buffer, op, stream),
        notes=(*notes, *last_barrier(judged, use, alloc)),
        doubts=doubts | kept | free.doubts | lifetimes.use_doubts(op, free.buffer),
    )


def _used(use: Op, user: str) -> str:
    by_caller = is_handed_out(use)
    return f"handed to the caller, which uses it on {user}" if by_caller else f"last use on {user}"


def _dropped(judged: Judged, name: str, free: Free, use: Op) -> str:
    """What is known of the drop: within the statement of the use, or behind an address, only that it was.

    What a call has handed out its caller drops: ``for batch in prefetcher`` before it asks for the next one.
    """
    if any(is_entry(op) and op.at.span == free.at.span for op in judged.trace.ops):
        return f"the caller may have dropped {name} when it comes here again"
    # return self.sample_tokens(hidden)    what is called here let it go, by its end at the latest.
    within = any(free.at.span.has_lines_of(span) for span in (use.at.span, *use.at.calls))
    if is_handed_out(use):
        return (
            f"the caller gets {name} and may drop it"
            if within
            else f"the caller may have dropped {name} by now"
        )
    return (
        f"no reference to {name} is left after this"
        if within
        else f"the last reference to {name} is dropped here"
    )


def _is_awaited(op: Op, buffer: Buffer) -> bool:
    """Whether the pool of a block waits for the op before it hands the block out again.

    So does PyTorch's of pinned memory, and ``p.data.to("cuda")`` copies only what is not on the device.
    """
    if isinstance(op, Copy) and op.only_if_elsewhere and buffer.space is Space.UNKNOWN:
        return True
    return bool(buffer.pool_awaits) and isinstance(op, (Launch, Copy)) and op.library == buffer.pool_awaits


def _what(judged: Judged, alloc: OpId) -> str:
    return "what the caller allocates next" if is_return(judged.op(alloc)) else "this allocation"


def _owner(judged: Judged, buffer: Buffer, stream: StreamId) -> tuple[str, str, str]:
    """Whom the memory goes back to, where the next allocation is, and what else could keep it back."""
    user = quoted(judged.stream_name(stream))
    if buffer.alloc_stream is None:
        return buffer.pool or "its pool", "from it", f"synchronize {user} before the reference goes"
    home = quoted(judged.stream_name(buffer.alloc_stream))
    remedy = f"make {home} wait for {user} before the reference goes"
    return f"the allocator of {home}", f"on {home}", remedy


def _kept(judged: Judged, buffer: Buffer, use: Op, stream: StreamId) -> str:
    """How the library keeps memory for another stream, as the code at the use would write it."""
    owner = judged.trace.streams[buffer.alloc_stream] if buffer.alloc_stream is not None else None
    words = None if owner is None else owner.words or judged.trace.streams[stream].words
    here = judged.seen_from(*judged.seen[:1])
    memory = here.view_here(buffer.id).strip("`")
    by = use.library if isinstance(use, (Launch, Copy)) else ""
    if words is None or not words.keep or by not in ("", words.library):
        return ""
    user = here.written_stream(stream, words)
    if not memory or not user:
        return ""
    return f"{words.library}: `{words.keep.format(memory=memory, stream=user)}`"


RULE = Rule(
    code="SL401",
    name="missing-record-stream",
    summary="memory goes back to a caching allocator while another stream still uses it",
    severity=Severity.ERROR,
    check=check,
    about=About.KEPT,
    witness=ByReuse(),
    doc="""\
## What it does
Reports the last use of a tensor on a stream other than the one that allocated it, where the last
reference is dropped (rebound, deleted, left behind by a return) and the allocating stream then
allocates again without being ordered after that use. For pinned memory from CuPy's pool, and for memory of
PyCUDA's pools, any stream is another one: the pool knows of none, and hands the block out again at once.
PyTorch's pool of pinned memory waits for PyTorch's own copies; copies of other libraries, which were given an
address, it does not see.

## Why is this bad?
The caching allocator knows only the stream that allocated the block. When Python drops the tensor,
the block is handed to the next allocation on that stream at once, and is overwritten while the
other stream still reads it. Events do not help: order and lifetime are separate facts.

## Example
```python
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    out.copy_(x)
del x                                   # the block is free for the current stream
y = torch.empty(n, device="cuda")       # and may be handed out here
```

Use instead:
```python
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    out.copy_(x)
x.record_stream(side)                   # the block stays until `side` is done with it
del x
y = torch.empty(n, device="cuda")
```

## Limits
Without a later allocation of the same stream in sight nothing is reported, unless a call drops what it,
or an earlier call of its object, has allocated on its caller's stream: the caller goes on to allocate
there. Where another method waits, that is `possible`. A tensor that unresolved code received, or that
autograd may have saved for the backward pass, may still be referenced: then the finding is only
`possible`. The sizes of the two allocations are not compared.

`x.untyped_storage().resize_(0)` gives memory back whoever names it; `p.grad = None`, `p.grad = other` and
`p.data = other` do if the code at hand holds it under no other name. So does `self.slots[i] = page` where
`page` is the copy on the host of what an earlier call was passed and kept there. Memory that the caller
allocated is taken to be the current stream's where the stream that uses it has waited for the current one;
the caller then allocates next.

Who gets what a side stream allocated (`return batch`, `yield batch`) is taken to use it on the current
stream, if that was made to wait for the side stream, and to let it go when it gets the next one. Whoever is
handed an event too may wait for it first.

## Source
[Tensor.record_stream](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.record_stream.html);
measured: a tensor freed while a side stream still read it was corrupted 5 of 5 times, with
`record_stream` 0 of 5. CuPy's pool behaves alike and has no `record_stream`. A pinned temporary
dropped after `set(stream=)`: corrupted 5 of 5 times, since CuPy's pool of pinned memory hands the block
out again at once. PyTorch's pinned allocator delays its reuse (0 of 5).
""",
)
