"""SL402 freed-while-in-use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.order.hb import Verdict
from streamlint.rules import lifetimes
from streamlint.rules.base import (
    Judged,
    Note,
    Problem,
    Rule,
    last_barrier,
    on,
    quoted,
    stream_of,
)
from streamlint.trace import FreeKind
from streamlint.witness import ByReuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.trace import Free, OpId


def check(judged: Judged) -> Iterator[Problem]:
    for number, free in lifetimes.frees(judged, FreeKind.EXPLICIT):
        if free.of_another:
            yield _of_another(judged, number, free)
            continue
        known = judged.trace.buffers[free.buffer]
        if free.stream is None and known.alloc_stream is None and not free.at_once:
            # cudaFree of cudaMalloc memory blocks until the device is idle: slow, not wrong.
            continue
        for use in lifetimes.last_uses(judged, free.buffer, number):
            problem = _judge(judged, use, number, free)
            if problem is not None:
                yield problem


def _of_another(judged: Judged, number: OpId, free: Free) -> Problem:
    """``cudart.cudaFree(x.data_ptr())``: the tensor's allocator has it still, and hands it out again."""
    judged = judged.seen_from(number)
    name = quoted(judged.buffer_name(free.buffer))
    return Problem(
        later=number,
        earlier=None,
        buffer=free.buffer,
        message=f"`{free.name}` frees the memory of {name}, which an object owns and gives back by itself",
        label="freed under its owner",
        help=f"let the references to {name} go instead (`del`): its allocator takes the memory back",
        notes=(),
        doubts=free.doubts,
    )


def _judge(judged: Judged, use: OpId, number: OpId, free: Free) -> Problem | None:
    ordering = judged.hb.ordered(use, number)
    op = judged.op(use)
    stream = stream_of(op)
    if ordering.verdict is Verdict.YES or stream is None:
        return None
    judged = judged.seen_from(number, use)
    name, user = quoted(judged.buffer_name(free.buffer)), quoted(judged.stream_name(stream))
    where = f" on {quoted(judged.stream_name(free.stream))}" if free.stream is not None else ""
    wait = (
        f"synchronize {user} before the free"
        if free.stream is None
        else f"make {quoted(judged.stream_name(free.stream))} wait for {user} before the free "
        f"(record an event on {user} after the use)"
    )
    notes = [Note(op.at.span, f"used {on(judged, op)} here")]
    return Problem(
        later=number,
        earlier=use,
        buffer=free.buffer,
        message=f"{name} is freed{where} while {user} may still be using it",
        label=f"freed{where}",
        help=f"{wait}, or free on {user}",
        notes=(*notes, *last_barrier(judged, use, number)),
        doubts=ordering.doubts | free.doubts | lifetimes.use_doubts(op, free.buffer),
    )


RULE = Rule(
    code="SL402",
    name="freed-while-in-use",
    summary="memory freed, closed, unpinned or dropped while queued work still uses it",
    severity=Severity.ERROR,
    check=check,
    witness=ByReuse(),
    doc="""\
## What it does
Reports an explicit free that is not ordered after queued work that uses the memory: `cudaFreeAsync`
on a stream that does not wait for the stream of the use, `cudaFree` of memory that came from
`cudaMallocAsync`, or `cuMemUnmap` of a mapping, which is in the order of no stream.

And a free by address of memory that an object owns (`cudaFree(x.data_ptr())` of a tensor): whatever the
order, the object's allocator has the block still. It hands it out again, though it is gone; or, where the
address is not the beginning of what the allocator once got, the call fails and frees nothing.

## Why is this bad?
A stream-ordered free takes effect when its stream gets there. The pool then hands the memory to the
next allocation, which may write it while the other stream still reads it.

## Example
```python
p = check(cudart.cudaMallocAsync(size, a))
check(cudart.cudaMemcpyAsync(out, p, size, D2D, b))
check(cudart.cudaFreeAsync(p, a))          # `a` does not wait for `b`
```

Use instead:
```python
p = check(cudart.cudaMallocAsync(size, a))
check(cudart.cudaMemcpyAsync(out, p, size, D2D, b))
check(cudart.cudaEventRecord(done, b))
check(cudart.cudaStreamWaitEvent(a, done, 0))
check(cudart.cudaFreeAsync(p, a))
```

## Limits
`cudaFree` of `cudaMalloc` memory and `cudaFreeHost` block until the device is idle (measured): they
are slow with work pending, and not reported here.

## Source
[cudaFree](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html): the pointer must be one
that CUDA's own allocation functions gave;
[Stream-ordered memory allocator](https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/stream-ordered-memory-allocation.html);
measured: `cudaFree` of a `cudaMallocAsync` pointer returned at once with its stream busy.
""",
)
