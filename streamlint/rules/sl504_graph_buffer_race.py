"""SL504 graph-buffer-race."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.frozen import replace
from streamlint.order.conflicts import Conflict, ConflictKind
from streamlint.rules import lifetimes, pairs, sl401_missing_record_stream, sl402_freed_while_in_use
from streamlint.rules.base import (
    Judged,
    Note,
    Problem,
    Remedy,
    Rule,
    on,
    quoted,
    stream_of,
    what,
)
from streamlint.trace import (
    Access,
    Alloc,
    BeginCapture,
    BufferId,
    Copy,
    Doubt,
    EndCapture,
    Evidence,
    Free,
    FreeKind,
    HostAccess,
    Launch,
    Mode,
    Op,
    OpId,
    Origin,
    Space,
    launches_graph,
)
from streamlint.witness import ByValue

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(judged: Judged) -> Iterator[Problem]:
    if not judged.trace.graphs:
        return
    for conflict in judged.conflicts:
        if launches_graph(judged.op(conflict.earlier)) or launches_graph(judged.op(conflict.later)):
            yield _race(judged, conflict)
    yield from _freed_before(judged)
    yield from _freed_during(judged)


# ----------------------------------------------------------------------------- unordered use


def _race(judged: Judged, conflict: Conflict) -> Problem:
    judged = judged.seen_from(conflict.later, conflict.earlier)
    earlier, later = judged.op(conflict.earlier), judged.op(conflict.later)
    name = pairs.subject(judged, conflict)
    reads = conflict.kind is ConflictKind.READ_AFTER_WRITE
    remedy = _remedy(judged, conflict)
    doing = "reading" if conflict.kind is ConflictKind.WRITE_AFTER_READ else "writing"
    return Problem(
        later=conflict.later,
        earlier=conflict.earlier,
        buffer=conflict.buffer,
        message=(
            f"{_actor(judged, later)} {'reads' if reads else 'overwrites'} {name} "
            f"while {_actor(judged, earlier)} may still be {doing} it"
        ),
        label="launched too early"
        if launches_graph(later)
        else f"{'read' if reads else 'written'} too early",
        help=remedy.help,
        statement=remedy.statement,
        notes=pairs.notes(judged, conflict),
        doubts=conflict.doubts | _more_doubts(judged, conflict),
        explains=frozenset({(conflict.earlier, conflict.later)}),
    )


def _actor(judged: Judged, op: Op) -> str:
    """Who does the later half: a graph, a stream or the host."""
    stream = stream_of(op)
    if launches_graph(op):
        return f"{judged.graph_name(op.graph)}, launched {on(judged, op)},"
    return "the host" if stream is None else quoted(judged.stream_name(stream))


def _remedy(judged: Judged, conflict: Conflict) -> Remedy:
    earlier, later = judged.op(conflict.earlier), judged.op(conflict.later)
    stream = stream_of(earlier)
    if isinstance(later, HostAccess) and stream is not None:
        name = quoted(judged.stream_name(stream))
        return Remedy(f"synchronize {name}, or an event recorded on it after the {what(earlier)}, first")
    return pairs.order_help(judged, conflict)


def _more_doubts(judged: Judged, conflict: Conflict) -> frozenset[Doubt]:
    """What the accesses of a launch do not say by themselves.

    The doubts of captured work stand at its accesses, not at the launch.
    """
    doubts: set[Doubt] = set()
    sides = (
        (judged.op(conflict.earlier), conflict.earlier_access),
        (judged.op(conflict.later), conflict.later_access),
    )
    if all(Doubt.OPAQUE in op.doubts | access.doubts for op, access in sides):
        doubts.add(Doubt.GUESSED)
    on_host = any(isinstance(op, HostAccess) for op, _ in sides)
    if on_host and pairs.place(judged, conflict) in (Space.UNKNOWN, Space.DEVICE):
        doubts.add(Doubt.ALIAS)
    return frozenset(doubts)


# ----------------------------------------------------------------------------- freed memory


def _freed_before(judged: Judged) -> Iterator[Problem]:
    """Launches of a graph whose memory was freed, or dropped, since it was captured."""
    last_use = {
        access.buffer: number
        for number, op in enumerate(judged.trace.ops)
        if isinstance(op, (Launch, Copy)) and not launches_graph(op)
        for access in op.accesses
    }
    temporaries = _made_by_captures(judged)
    freed: dict[BufferId, OpId] = {}
    for number, op in enumerate(judged.trace.ops):
        if isinstance(op, Free):
            # What the program itself still uses was not dropped.
            if op.kind is FreeKind.EXPLICIT or last_use.get(op.buffer, -1) < number:
                freed.setdefault(op.buffer, OpId(number))
        elif launches_graph(op):
            for access in op.accesses:
                if access.buffer not in freed:
                    continue
                if access.buffer in temporaries:
                    yield from _given_on(judged, freed[access.buffer], OpId(number), op, access)
                else:
                    yield _stale(judged, freed[access.buffer], OpId(number), op, access)


def _made_by_captures(judged: Judged) -> set[BufferId]:
    """What was allocated while something was captured."""
    made: set[BufferId] = set()
    capturing = 0
    for op in judged.trace.ops:
        match op:
            case BeginCapture():
                capturing += 1
            case EndCapture():
                capturing = max(0, capturing - 1)
            case Alloc(buffer=buffer) if capturing:
                made.add(buffer)
            case _:
                pass
    return made


def _stale(judged: Judged, number: OpId, launch: OpId, op: Launch, access: Access) -> Problem:
    judged = judged.seen_from(launch)
    free = judged.op(number)
    assert isinstance(free, Free)
    name, graph = quoted(judged.buffer_name(free.buffer)), judged.graph_name(op.graph)
    dropped = free.kind is FreeKind.DROPPED
    gone = "which nothing refers to any more" if dropped else "which was freed"
    return Problem(
        later=launch,
        earlier=number,
        buffer=free.buffer,
        message=f"{graph} {'writes' if access.mode.writes else 'reads'} the memory of {name}, {gone}",
        label="uses the memory that was captured",
        help=(
            f"keep {name} as long as {graph} is launched, and refill it in place (PyTorch: `copy_`): "
            "a graph uses the addresses that it was captured with"
        ),
        notes=(Note(free.at.span, f"{'the last reference goes' if dropped else 'freed'} here"),),
        doubts=free.doubts
        | op.doubts
        | access.doubts
        | lifetimes.owner_doubts(judged, free.buffer)
        | _ended(judged, number, free, op)
        | _set_up_again(judged, number, free),
    )


def _set_up_again(judged: Judged, number: OpId, free: Free) -> frozenset[Doubt]:
    """A method that puts new memory in the place of what its own earlier call made: who would call it twice?

    ``allocate(rows)``: hardly anybody, behind a capture. ``set_prompt(embeds)``: whoever has another prompt.
    """
    made = judged.numbers(Alloc, before=number)
    earlier = next(
        (op for op in map(judged.op, made) if isinstance(op, Alloc) and op.buffer == free.buffer), None
    )
    again = earlier is not None and 0 < earlier.at.call != free.at.call
    same = earlier is not None and earlier.at.function == free.at.function
    if not again or not same or _is_made_of_arguments(judged, free.buffer, number):
        return frozenset()
    return frozenset({Doubt.SOME_PATHS})


def _is_made_of_arguments(judged: Judged, buffer: BufferId, before: OpId) -> bool:
    """Whether what stands in memory was computed from what unseen code has passed."""
    seen, left = {buffer}, [buffer]
    while left:
        one = left.pop()
        known = judged.trace.buffers[one]
        if known.origin is Origin.ARGUMENT or known.of_values:
            return True
        for number in judged.uses(one, before=before):
            op = judged.op(number)
            if isinstance(op, (Launch, Copy)) and any(a.buffer == one and a.mode.writes for a in op.accesses):
                new = {a.buffer for a in op.accesses if a.mode.reads} - seen
                seen |= new
                left += sorted(new)
    return False


def _ended(judged: Judged, number: OpId, free: Free, launch: Launch) -> frozenset[Doubt]:
    """A method that frees by an explicit call, and allocates nothing, ends what the object does.

    ``engine.close()``, then ``engine.run()``: only a caller could do that. ``engine.resize(n)`` goes on.
    """
    if free.kind is not FreeKind.EXPLICIT or free.at.call == launch.at.call:
        return frozenset()
    made = (op for op in judged.trace.ops[number:] if isinstance(op, Alloc))
    return frozenset() if any(op.at.call == free.at.call for op in made) else frozenset({Doubt.SOME_PATHS})


def _given_on(judged: Judged, number: OpId, launch: OpId, op: Launch, access: Access) -> Iterator[Problem]:
    """Memory that a capture took from CuPy's pool and gave back: a launch writes it, whoever has it by then.

    ``h = x @ w`` in a captured step, and ``history.append(x.copy())`` between two launches.
    """
    judged = judged.seen_from(launch)
    free = judged.op(number)
    assert isinstance(free, Free)
    taken = _taken_again(judged, number, launch, access) if access.mode is Mode.WRITE else None
    if taken is None:
        return
    alloc, made = taken
    graph, name = judged.graph_name(op.graph), quoted(judged.buffer_name(made))
    yield Problem(
        later=launch,
        earlier=number,
        buffer=free.buffer,
        message=f"{graph} writes memory that went back to the pool since, and that {name} may have got",
        label="overwrites what was allocated since",
        help=(
            "let captured work write into arrays that are kept, or keep what it makes: a CuPy array that "
            "is dropped goes back to the pool, and the graph goes on using its address"
        ),
        notes=(
            Note(free.at.span, "what the capture has allocated goes back to the pool here"),
            Note(judged.op(alloc).at.span, f"{name} is allocated here"),
        ),
        # How much either takes is not compared.
        doubts=free.doubts | op.doubts | access.doubts | {Doubt.PATH},
    )


def _taken_again(judged: Judged, free: OpId, launch: OpId, access: Access) -> tuple[OpId, BufferId] | None:
    """An allocation that may get the block, and is written before a launch and read behind it."""
    buffer = judged.trace.buffers[access.buffer]
    for position in range(free + 1, launch):
        made = lifetimes.allocated(judged, OpId(position), buffer.alloc_stream)
        if made is None or made.home != buffer.home:
            continue
        if made.kind is Evidence.ASSUMED:
            # total += float(x.sum()): a number.
            continue
        uses = judged.uses(made.id)
        behind = next((number for number in uses if number > launch), None)
        if behind is None or uses[0] > launch:
            continue
        if any(one.mode.reads for one in lifetimes.accesses_to(judged.op(behind), made.id)):
            return OpId(position), made.id
    return None


def _freed_during(judged: Judged) -> Iterator[Problem]:
    """Memory that is freed or dropped while a launch may still be using it: SL401 and SL402 for graphs."""
    rules = (sl401_missing_record_stream, sl402_freed_while_in_use)
    for problem in (problem for rule in rules for problem in rule.check(judged)):
        use = judged.op(problem.earlier) if problem.earlier is not None else None
        if problem.earlier is None or problem.buffer is None or use is None or not launches_graph(use):
            continue
        here = judged.seen_from(problem.earlier)
        name = quoted(here.buffer_name(problem.buffer))
        yield replace(
            problem,
            message=f"the memory of {name} is given back while {_actor(here, use)} may still be using it",
            explains=frozenset({(problem.earlier, problem.later)}),
        )


RULE = Rule(
    code="SL504",
    name="graph-buffer-race",
    summary="memory of a captured graph used, freed or refilled without order to a launch of the graph",
    severity=Severity.ERROR,
    check=check,
    witness=ByValue(),
    doc="""\
## What it does
Reports memory that a captured graph reads or writes and that is used elsewhere without order to a launch
of the graph (`replay()` in PyTorch):

* the static input is refilled on a stream that the launch does not wait for, or before the last launch
  is done;
* the static output is read on another stream, or by the host, before the launch is done, or overwritten by
  the next launch before it was read;
* two graphs that share memory are launched on two streams;
* the memory is freed, or its last reference goes, before a launch that uses it;
* with CuPy, what was allocated and dropped while it was captured: the pool hands it out again, and each
  launch writes it.

## Why is this bad?
A graph runs on the addresses that it was captured with. The launch waits for its own stream only, so an
unordered refill or read sees old or half-written data. A graph keeps no memory alive but what was
allocated while it was captured, and with CuPy not that either: once the allocator has handed the rest out
again, each launch reads and writes somebody else's data. Rebinding a name (`static_input = batch`) has no
effect on the graph.

## Example
```python
with torch.cuda.stream(copy_stream):
    static_input.copy_(batch, non_blocking=True)
graph.replay()                                   # may read the last batch, or half of this one
```

Use instead:
```python
with torch.cuda.stream(copy_stream):
    copy_stream.wait_stream(torch.cuda.current_stream())   # the last replay has read its input
    static_input.copy_(batch, non_blocking=True)
torch.cuda.current_stream().wait_stream(copy_stream)
graph.replay()
```

## Limits
Launches of one executable graph are ordered by CUDA, on whatever streams. Graphs built node by node, and
graphs whose nodes may have been changed by a call (`cudaGraphExecUpdate`), are not known well enough: the
first are not looked into, the second are `possible`. Of a callable from `make_graphed_callables` only its
static output is known. That a graph reads old data because nothing refilled it is no race, and not
reported while the memory lives. A static output that is copied to the host after the launch is a case of
SL201.

## Source
[cudaGraphLaunch](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html): ordered behind
earlier work of its stream and earlier launches of the same executable graph;
[CUDA graphs in PyTorch](https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs): a replay reads and
writes the same memory addresses, and the option `check_input_liveness` of a capture tells of inputs that were
freed before a replay.
""",
)
