"""SL509 result-overwritten-by-replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.frozen import frozen
from streamlint.rules.base import Judged, Note, Problem, Rule, is_return, quoted
from streamlint.trace import (
    Access,
    BufferId,
    Copy,
    Doubt,
    HostAccess,
    HostWait,
    Join,
    Launch,
    Mode,
    OpId,
    Overlap,
    launches_graph,
    overlap,
)
from streamlint.witness import NoWitness

if TYPE_CHECKING:
    from collections.abc import Iterator


@frozen()
class _Read:
    """``by`` reads memory that is taken for the result of ``launch``; the ``last`` launch has written it."""

    by: OpId
    access: Access
    launch: OpId
    last: OpId


def check(judged: Judged) -> Iterator[Problem]:
    told: set[OpId] = set()
    for buffer in _outputs(judged):
        reads = list(_reads(judged, buffer))
        for read in reads:
            if read.launch < read.last and read.last not in told and _is_one_of_several(judged, read, reads):
                told.add(read.last)
                yield _problem(judged, read)
                break
        for read in reads:
            again = _launched_beside(judged, read)
            if again is not None and again not in told:
                told.add(again)
                yield _beside_thread(judged, read, again)
                break


def _outputs(judged: Judged) -> list[BufferId]:
    """What launches of graphs write."""
    launches = (op for op in map(judged.op, judged.numbers(Launch)) if launches_graph(op))
    return list(dict.fromkeys(a.buffer for op in launches for a in op.accesses if a.mode is Mode.WRITE))


def _reads(judged: Judged, buffer: BufferId) -> Iterator[_Read]:
    for number in judged.touching(buffer):
        op = judged.op(number)
        assert isinstance(op, (Launch, Copy, HostAccess))
        for access in op.accesses:
            if access.buffer == buffer and access.mode.reads and access.result_of is not None:
                launch = OpId(access.result_of)
                yield _Read(number, access, launch, _last_launch(judged, access, launch, number))


def _beside_memory(judged: Judged, read: _Read) -> bool:
    """``runner.y - previous``: an operator that reads one memory twice takes the two for different."""
    op = judged.op(read.by)
    assert isinstance(op, (Launch, Copy, HostAccess))
    is_seen = not is_return(op) and Doubt.OPAQUE not in op.doubts
    return is_seen and any(
        one.buffer == read.access.buffer
        and one.mode is Mode.READ
        and one.result_of is None
        and overlap(one.region, read.access.region) is Overlap.YES
        for one in op.accesses
    )


def _last_launch(judged: Judged, read: Access, launch: OpId, before: OpId) -> OpId:
    """The last launch of the same graph that has written what is read: ``launch`` itself, or a later one."""
    first = judged.op(launch)
    later = (n for n in judged.touching(read.buffer, launch + 1) if n < before)
    again = [
        n for n in later if launches_graph(op := judged.op(n)) and _same(first, op) and _writes(op, read)
    ]
    return again[-1] if again else launch


def _same(first: object, again: Launch) -> bool:
    return isinstance(first, Launch) and first.graph == again.graph


def _writes(op: Launch, read: Access) -> bool:
    return any(
        access.buffer == read.buffer
        and access.mode is Mode.WRITE
        and overlap(access.region, read.region) is Overlap.YES
        for access in op.accesses
    )


def _is_one_of_several(judged: Judged, read: _Read, reads: list[_Read]) -> bool:
    """Whether the code holds a later result of the same graph, too, and reads it in the same place.

    ``torch.stack(outs)``, ``for out in outs: total += out``. Who means the memory, whatever the last launch
    has left in it, holds it once: ``out = runner(x)``, and then ``runner(y)`` and ``out``.
    """
    return _beside_memory(judged, read) or any(
        read.launch < other.launch <= read.last
        and (
            other.by == read.by
            or (_is_place_of_both(judged, read, other) and _are_held_together(read, other))
        )
        for other in reads
    )


def _is_place_of_both(judged: Judged, read: _Read, other: _Read) -> bool:
    named = read.access.by_name or other.access.by_name
    return not named and judged.op(read.by).at.span == judged.op(other.by).at.span


def _are_held_together(read: _Read, other: _Read) -> bool:
    """Whether no launch stands between the two reads, or the one whose result the second is came too early.

    ``following = run(x); use(current); current = following``: what is used is always one launch too old.
    """
    return other.last == read.last or (other.launch == read.last and other.launch < other.last)


def _launched_beside(judged: Judged, read: _Read) -> OpId | None:
    """The next launch by the thread that gave the result of one to another thread, and did not wait for that.

    ``queue.put(runner(x))``, and the next ``runner(x)``: who takes the result may come to it later than that.
    Not where the first thread has waited for anything since, and not in another call: its caller may wait.
    """
    first, reader = judged.op(read.launch), judged.op(read.by)
    if reader.lane == first.lane or read.last != read.launch or read.access.by_name:
        return None
    later = (n for n in judged.touching(read.access.buffer, read.by + 1) if judged.op(n).lane == first.lane)
    again = next(
        (
            number
            for number in later
            if launches_graph(op := judged.op(number)) and _same(first, op) and _writes(op, read.access)
        ),
        None,
    )
    if again is None or not first.at.call == reader.at.call == judged.op(again).at.call:
        return None
    waits = map(judged.op, judged.numbers(HostWait, Join, first=read.launch, before=again))
    unseen = judged.trace.calls_unseen(read.launch, again)
    return None if unseen or any(op.lane == first.lane for op in waits) else again


def _beside_thread(judged: Judged, read: _Read, number: OpId) -> Problem:
    again, first, op = judged.op(number), judged.op(read.launch), judged.op(read.by)
    assert isinstance(again, Launch)
    judged = judged.seen_from(read.by)
    name = quoted(judged.buffer_name(read.access.buffer, read.access.region))
    graph = judged.graph_name(again.graph)
    accesses = [one for one in (*again.accesses, read.access) if one.buffer == read.access.buffer]
    return Problem(
        later=number,
        buffer=read.access.buffer,
        message=(
            f"{graph} is launched again, and overwrites the memory of {name}, before "
            "another thread is known to have read the last result"
        ),
        label="overwrites what was handed to another thread",
        help=(
            "hand over a copy (PyTorch: `out.clone()`), or wait for the other thread before the graph is "
            "launched again"
        ),
        notes=(
            Note(op.at.span, "another thread reads it here"),
            Note(first.at.span, "this launch has written what it is to read"),
        ),
        doubts=op.doubts | again.doubts | first.doubts | {d for one in accesses for d in one.doubts},
    )


def _problem(judged: Judged, read: _Read) -> Problem:
    again, first, op = judged.op(read.last), judged.op(read.launch), judged.op(read.by)
    assert isinstance(again, Launch)
    judged = judged.seen_from(read.by)
    name = quoted(judged.buffer_name(read.access.buffer, read.access.region))
    graph = judged.graph_name(again.graph)
    verb = "handed out" if is_return(op) else "read"
    accesses = [one for one in (*again.accesses, read.access) if one.buffer == read.access.buffer]
    doubts = {doubt for one in accesses for doubt in one.doubts}
    # When the caller uses it does not matter: it was overwritten before.
    doubts -= {Doubt.RESULT}
    doubts |= {Doubt.PATH} if read.access.by_name else set()
    return Problem(
        # No order of the two would help: that other paths have one says nothing.
        later=read.by,
        buffer=read.access.buffer,
        message=(
            f"the memory of {name} is {verb} as the result of an earlier launch of {graph}, "
            "which was launched again since and has overwritten it"
        ),
        label="all of them are the last result",
        help="copy what is kept of a result before the graph is launched again (PyTorch: `out.clone()`)",
        notes=(
            Note(first.at.span, "this launch has written what is meant"),
            Note(again.at.span, "a later launch writes the same memory"),
        ),
        doubts=op.doubts | again.doubts | first.doubts | doubts,
    )


RULE = Rule(
    code="SL509",
    name="result-overwritten-by-replay",
    summary="the result of a graph is kept without a copy, and read after a later launch has overwritten it",
    severity=Severity.ERROR,
    check=check,
    witness=NoWitness("the values are wrong in whatever order the work runs"),
    doc="""\
## What it does
Reports results of several launches of one graph that are kept side by side, in a list, in two variables or in
what a function hands out, and read after the last of these launches. So with a result that another thread was
given, where the graph is launched again without a wait for that thread.

## Why is this bad?
Each launch of a graph writes the same memory. What looks like several results is one tensor, and all that was
kept shows the values of the last launch.

## Example
```python
outs = []
for batch in batches:
    static_x.copy_(batch)
    graph.replay()
    outs.append(static_y)
total = torch.stack(outs)        # the last result, again and again
```

Use instead:
```python
outs = []
for batch in batches:
    static_x.copy_(batch)
    graph.replay()
    outs.append(static_y.clone())
total = torch.stack(outs)
```

## Limits
A variable that is bound once, and read after each launch, means the memory and not a result. What is reported
needs two results that are read in one place, or one operator that reads a result beside the memory. Gradients
that autograd accumulates by itself are not followed, nor memory that a graph only updates.

## Source
[CUDA graphs in PyTorch](https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs): a replay reads and
writes the same memory addresses; who needs an output later has to copy it before the next replay.
""",
)
