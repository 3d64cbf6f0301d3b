"""SL405 record-stream-on-owner."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules import lifetimes
from streamlint.rules.base import Judged, Note, Problem, Rule, quoted, stream_of
from streamlint.trace import (
    Alloc,
    BufferId,
    Doubt,
    KeepAlive,
    OpId,
    StreamKind,
)
from streamlint.witness import NoWitness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.source import Span
    from streamlint.trace import Op


_SIDE_STREAMS = (StreamKind.BLOCKING, StreamKind.NON_BLOCKING)


def check(judged: Judged) -> Iterator[Problem]:
    useful = _useful_places(judged)
    rescued = _kept_for_others(judged)
    for number, op in enumerate(judged.trace.ops):
        if not isinstance(op, KeepAlive) or op.at.span in useful or op.buffer in rescued:
            continue
        buffer = judged.trace.buffers[op.buffer]
        if buffer.alloc_stream != op.stream:
            continue
        used = _is_used_aside(judged, op)
        if not used and judged.trace.streams[op.stream].kind not in _SIDE_STREAMS:
            continue
        made = _allocation(judged, op.buffer)
        if _may_differ(judged, op, None if made is None else judged.op(made)):
            continue
        here = judged.seen_from(OpId(number))
        name, owner = quoted(here.buffer_name(op.buffer)), quoted(here.stream_name(op.stream))
        yield Problem(
            later=OpId(number),
            earlier=made,
            buffer=op.buffer,
            message=f"{name} was allocated on {owner}, so recording it there keeps nothing alive",
            label=f"{owner} owns the memory",
            help=f"record the stream that uses {name}, not the one that was current when it was made",
            notes=() if made is None else (Note(judged.op(made).at.span, f"allocated on {owner} here"),),
            doubts=op.doubts
            | lifetimes.owner_doubts(judged, op.buffer)
            | (frozenset() if used or _is_for_others(judged, OpId(number), op, made) else {Doubt.RESULT}),
            settled_by=partial(_is_useful, op.at.span),
        )


def _is_useful(place: Span, other: Judged) -> bool:
    """Whether a call keeps memory of another stream alive on another path.

    ``if storage.size() == 0: storage.resize_(n)`` aside, and behind it ``x.record_stream(current_stream())``.
    """
    return place in _useful_places(other)


def _useful_places(judged: Judged) -> set[Span]:
    """Calls that keep memory of another stream alive, in a loop or a helper called for many tensors."""
    return {
        op.at.span
        for op in judged.trace.ops
        if isinstance(op, KeepAlive) and judged.trace.buffers[op.buffer].alloc_stream != op.stream
    }


def _kept_for_others(judged: Judged) -> set[BufferId]:
    """Buffers that are recorded on another stream as well: ``for s in streams: x.record_stream(s)``."""
    return {
        op.buffer
        for op in judged.trace.ops
        if isinstance(op, KeepAlive) and judged.trace.buffers[op.buffer].alloc_stream != op.stream
    }


def _is_used_aside(judged: Judged, kept: KeepAlive) -> bool:
    """Whether another stream is seen to use the memory. If none is, unseen code may: why else record it?"""
    return any(stream_of(judged.op(number)) != kept.stream for number in judged.uses(kept.buffer))


def _is_for_others(judged: Judged, number: OpId, kept: KeepAlive, made: OpId | None) -> bool:
    """Whether a function records what it has just made, and does nothing with it on that stream afterwards.

    ``with torch.cuda.stream(side): p.data = host.to(device); p.data.record_stream(current_stream())``.
    """
    if made is None:
        return False
    first = judged.op(made)
    here = (first.at.function, first.at.call) == (kept.at.function, kept.at.call)
    return here and not judged.uses(kept.buffer, first=OpId(number + 1))


def _may_differ(judged: Judged, kept: KeepAlive, made: Op | None) -> bool:
    """Whether the current stream may be another one than when the memory was allocated.

    ``self.buffer`` is made by the constructor; ``def release(x): x.record_stream(current_stream())`` records
    the stream that is current then, whoever calls it. So does ``def run(pool: Pool)``, who was given the pool
    with its memory: what allocated that is not on the path.
    """
    if judged.trace.streams[kept.stream].kind is not StreamKind.CURRENT:
        return False
    return made is None or (made.at.call, made.at.function) != (kept.at.call, kept.at.function)


def _allocation(judged: Judged, buffer: BufferId) -> OpId | None:
    for number, op in enumerate(judged.trace.ops):
        if isinstance(op, Alloc) and op.buffer == buffer:
            return OpId(number)
    return None


RULE = Rule(
    code="SL405",
    name="record-stream-on-owner",
    summary="`record_stream` with the stream that owns the memory: no effect",
    severity=Severity.ERROR,
    check=check,
    witness=NoWitness("a record without effect changes nothing; the missing one beside it is SL401"),
    doc="""\
## What it does
Reports `x.record_stream(s)` where `s` is the stream on which `x` was allocated, and `x` is recorded
on no other stream.

## Why is this bad?
`record_stream` tells the caching allocator about a use on *another* stream. Of the allocating stream
it knows already, so the call does nothing, and the stream that does use the tensor is not protected:
the memory may be handed out again while that stream still reads it. The usual slip is to ask for
`torch.cuda.current_stream()` inside the `with torch.cuda.stream(...)` block.

## Example
```python
with torch.cuda.stream(copy_stream):
    x = host.to("cuda", non_blocking=True)
    x.record_stream(torch.cuda.current_stream())    # `copy_stream`, which owns it
```

Use instead:
```python
compute = torch.cuda.current_stream()
with torch.cuda.stream(copy_stream):
    x = host.to("cuda", non_blocking=True)
    x.record_stream(compute)
```

## Limits
Where no other stream is seen to use the tensor, the finding is only `possible`, unless a function records
what it has just made and does nothing more with it on that stream: then others use it. A tensor whose
allocation was not seen is not judged. A helper that records every tensor on every
stream is right, and silent.

## Source
[Tensor.record_stream](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.record_stream.html):
the caching allocator is aware of only the stream where a tensor was allocated.
""",
)
