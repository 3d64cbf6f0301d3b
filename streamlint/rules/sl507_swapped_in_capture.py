"""SL507 swapped-in-capture."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules.base import Judged, Note, Problem, Rule, quoted
from streamlint.trace import (
    BufferId,
    Copy,
    EndCapture,
    HostAccess,
    Launch,
    OpId,
    launches_graph,
)
from streamlint.witness import NoWitness

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(judged: Judged) -> Iterator[Problem]:
    for end in judged.numbers(EndCapture):
        ended = judged.op(end)
        assert isinstance(ended, EndCapture)
        launches = _launches(judged, end, ended) if ended.swapped else []
        for first, last in ended.swapped:
            for earlier, later in pairwise(launches):
                if not _is_written(judged, first, earlier, later):
                    yield _problem(judged, end, (first, last), (earlier, later))
                    break


def _launches(judged: Judged, end: OpId, ended: EndCapture) -> list[OpId]:
    found = []
    for number in judged.numbers(Launch, first=end + 1):
        op = judged.op(number)
        if launches_graph(op) and op.graph == ended.graph:
            found.append(number)
    return found


def _is_written(judged: Judged, buffer: BufferId, earlier: OpId, later: OpId) -> bool:
    """Whether anything gives the memory another content between two launches: a copy, or a second graph."""
    between = [judged.op(number) for number in judged.touching(buffer) if earlier < number < later]
    return any(
        access.buffer == buffer and access.mode.writes
        for op in between
        if isinstance(op, (Launch, Copy, HostAccess))
        for access in op.accesses
    )


def _problem(
    judged: Judged, end: OpId, pair: tuple[BufferId, BufferId], launches: tuple[OpId, OpId]
) -> Problem:
    first, last = pair
    earlier, later = launches
    begun, again = judged.op(earlier), judged.op(later)
    assert isinstance(begun, Launch)
    assert isinstance(again, Launch)
    judged = judged.seen_from(later)
    graph = judged.graph_name(again.graph)
    read, left = quoted(judged.buffer_name(first)), quoted(judged.buffer_name(last))
    left = left if left != read else "what it was swapped with"
    accesses = [access for op in (begun, again) for access in op.accesses if access.buffer in pair]
    return Problem(
        later=later,
        earlier=earlier,
        buffer=first,
        message=f"{graph} begins with {read} again, and not with its last result, which is in {left}",
        label="begins with what it was captured with",
        help=(
            f"copy {left} into {read} at the end of what is captured, or capture an even number of swaps: "
            "what Python swaps while it captures, a launch does not swap"
        ),
        notes=(Note(judged.op(end).at.span, "the two are swapped when this capture ends"),),
        doubts=begun.doubts
        | again.doubts
        | judged.op(end).doubts
        | {d for one in accesses for d in one.doubts},
    )


RULE = Rule(
    code="SL507",
    name="swapped-in-capture",
    summary="buffers are swapped while a graph is captured, and its launches do not swap them",
    severity=Severity.ERROR,
    check=check,
    witness=NoWitness("the values are wrong in whatever order the work runs"),
    doc="""\
## What it does
Reports a graph that is launched again where the code has swapped two buffers while it was captured: one that
each launch reads before it writes it, and one that each launch writes last. Nothing writes the first between
the two launches.

## Why is this bad?
A swap is work of Python, and runs once, when the graph is captured. A launch begins with the memory that
stood in the place then, and not with what the last launch has left in the other: its last step is lost.

## Example
```python
def step(self):
    kernel(self.state, self.next)
    self.state, self.next = self.next, self.state

with torch.cuda.graph(graph):
    self.step()
for _ in range(steps):
    graph.replay()               # reads the first state each time
```

Use instead:
```python
with torch.cuda.graph(graph):
    self.step()                  # an even number of times,
    self.step()
for _ in range(steps // 2):
    graph.replay()               # so that the newest state is where the graph begins
```

## Limits
Where it is not known how often a loop swaps, it is taken to swap an even number of times. Memory that is
bound anew, and not swapped, is not followed.

## Source
[CUDA graphs in PyTorch](https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs): a replay reads and
writes the same memory addresses, and the CPU side of what was captured does not run.
""",
)
