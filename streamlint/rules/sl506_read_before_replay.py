"""SL506 read-before-replay."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules.base import Judged, Note, Place, Problem, Rule, is_return, place_of, quoted
from streamlint.trace import (
    Access,
    Barrier,
    BeginCapture,
    BufferId,
    Copy,
    Doubt,
    EndCapture,
    HostAccess,
    Launch,
    OpId,
    Origin,
    Overlap,
    Space,
    launches_graph,
    overlap,
)
from streamlint.witness import NoWitness

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(judged: Judged) -> Iterator[Problem]:
    for end in judged.numbers(EndCapture):
        ended = judged.op(end)
        assert isinstance(ended, EndCapture)
        for written in {access.buffer: access for access in ended.writes}.values():
            read = _first_use(judged, written, end)
            if read is not None and _is_unwritten(judged, written.buffer, end):
                yield _problem(judged, end, ended, written, read)


def _first_use(judged: Judged, written: Access, end: OpId) -> OpId | None:
    """What uses the memory next after the capture in the same call from outside, if that reads it."""
    after = [number for number in judged.touching(written.buffer) if number > end]
    if not after:
        return None
    first = judged.op(min(after))
    assert isinstance(first, (Launch, Copy, HostAccess))
    uses = [access for access in first.accesses if access.buffer == written.buffer]
    reads = all(
        access.mode.reads and overlap(access.region, written.region) is not Overlap.NO for access in uses
    )
    is_own_launch = launches_graph(first) and any(u.mode.writes for u in uses)
    same_call = first.at.call == judged.op(end).at.call
    return min(after) if reads and same_call and not is_own_launch else None


def _is_unwritten(judged: Judged, buffer: BufferId, end: OpId) -> bool:
    """Whether nothing has written the memory before: it is new, or was allocated without a value.

    A copy into pageable memory is no part of a graph: a capture refuses it.
    """
    known = judged.trace.buffers[buffer]
    if known.origin is Origin.ARGUMENT or known.instead_of is not None or known.space is Space.PAGEABLE:
        return False
    return all(number > end for number in judged.touching(buffer))


def _problem(judged: Judged, end: OpId, ended: EndCapture, written: Access, read: OpId) -> Problem:
    op = judged.op(read)
    assert isinstance(op, (Launch, Copy, HostAccess))
    # Who captures to warm up throws the result away: of one that is handed out nothing is sure.
    doubts = op.doubts | ended.doubts | written.doubts
    doubts |= {d for use in op.accesses if use.buffer == written.buffer for d in use.doubts}
    if Doubt.OPAQUE in op.doubts:
        # kept.append(weak_refs(static_out)): unseen code may keep what is not computed yet, or view it.
        doubts |= {Doubt.GUESSED}
    unseen = map(judged.op, judged.numbers(Barrier, first=end + 1, before=read))
    if any(isinstance(call, Barrier) and call.graphs for call in unseen):
        # warm(graph): it may have launched it.
        doubts |= {Doubt.ESCAPE}
    judged = judged.seen_from(read)
    name = quoted(judged.buffer_name(written.buffer, written.region))
    graph = judged.graph_name(ended.graph)
    verb = "handed out" if is_return(op) else "read"
    begins = [n for n in judged.numbers(BeginCapture, before=end) if judged.op(n).lane == ended.lane]
    return Problem(
        later=read,
        buffer=written.buffer,
        message=f"{name} is {verb} before any launch of {graph}, which writes it",
        label="nothing has been computed yet",
        help="launch the graph first (PyTorch: `graph.replay()`): a capture runs nothing",
        notes=tuple(Note(judged.op(n).at.span, "what is captured here does not run") for n in begins[-1:]),
        doubts=doubts,
        settled_by=partial(_launches_first, place_of(op)),
    )


def _launches_first(read: Place, other: Judged) -> bool:
    """Whether another path launches a graph before it comes to the same place."""
    reads = other.places.get(read, [])
    launches = (n for n in other.numbers(Launch) if launches_graph(other.op(n)))
    return bool(reads) and next(launches, reads[-1]) < reads[-1]


RULE = Rule(
    code="SL506",
    name="read-before-replay",
    summary="the result of captured work is read before the graph was launched",
    severity=Severity.ERROR,
    check=check,
    witness=NoWitness("the memory holds what was there before, with or without a delay"),
    doc="""\
## What it does
Reports the first read of memory that captured work writes, where no launch of the graph comes before it and
nothing else has written the memory.

## Why is this bad?
A capture runs nothing. Its outputs are allocated, and hold whatever was in that memory before. The first call
of a runner that captures and returns the static output gives garbage, all later ones are right.

## Example
```python
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
print(y.sum().item())
```

Use instead:
```python
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
graph.replay()
print(y.sum().item())
```

## Limits
What an unseen caller does with a result that is handed out is not known: many capture to warm up and throw it
away, so that is `possible` only, unless the same function hands out elsewhere what a graph has written: its
callers use the result. Memory that was written before the
capture, by a warm-up or because the caller passes it, has a value. Gradients of a captured `backward()` are
not followed.

## Source
[CUDA graphs in PyTorch](https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs): during capture no
work is run.
[cudaStreamBeginCapture](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html): operations
are not enqueued to be executed, but captured.
""",
)
