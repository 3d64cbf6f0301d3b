"""SL104 launch-off-stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules import handed_over, pairs
from streamlint.rules.base import (
    About,
    Judged,
    Note,
    Problem,
    Rule,
    on,
    quoted,
    stream_of,
    what,
)
from streamlint.trace import (
    Access,
    Copy,
    HostAccess,
    Launch,
    Mode,
    Op,
    OpId,
    Record,
    StreamChoice,
    StreamId,
    SyncEvent,
    SyncStream,
)
from streamlint.witness import ByValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.order.conflicts import Conflict


def check(judged: Judged) -> Iterator[Problem]:
    for conflict in judged.conflicts:
        found = _between_streams(judged, conflict) or _before_host(judged, conflict)
        if found is not None:
            yield found


def _between_streams(judged: Judged, conflict: Conflict) -> Problem | None:
    """One side is on the default stream for want of a stream, the other on a stream of its own."""
    for off, other in (conflict.later, conflict.earlier), (conflict.earlier, conflict.later):
        choice = _off(judged, off)
        stream = stream_of(judged.op(other))
        if choice is None or stream is None or judged.trace.streams[stream].is_default:
            continue
        if choice is StreamChoice.LEFT_OUT and (
            _choice(judged.op(other)) is not StreamChoice.NAMED or handed_over.without_order(judged, conflict)
        ):
            # Where streams are implied, or two libraries meet, the missing argument is not the cause.
            continue
        return _problem(judged, conflict, off, choice, stream)
    return None


def _before_host(judged: Judged, conflict: Conflict) -> Problem | None:
    """The host waits for the stream that the call should have been given, and then touches its memory."""
    choice = _off(judged, conflict.earlier)
    if choice is None or not isinstance(judged.op(conflict.later), HostAccess):
        return None
    waited = _waited_for(judged, conflict)
    return None if waited is None else _problem(judged, conflict, conflict.earlier, choice, waited)


def _waited_for(judged: Judged, conflict: Conflict) -> StreamId | None:
    """The stream of its own that the host waited for last between the two operations."""
    for number in range(conflict.later - 1, conflict.earlier, -1):
        op = judged.op(OpId(number))
        record = judged.hb.record_seen_by(OpId(number)) if isinstance(op, SyncEvent) else None
        waited = op if isinstance(op, SyncStream) else judged.op(record) if record is not None else None
        if isinstance(waited, (SyncStream, Record)) and not judged.trace.streams[waited.stream].is_default:
            return waited.stream
    return None


def _choice(op: Op) -> StreamChoice | None:
    return op.choice if isinstance(op, (Launch, Copy)) else None


def _off(judged: Judged, number: OpId) -> StreamChoice | None:
    """Why the operation is on the default stream, if for want of a stream."""
    op = judged.op(number)
    stream, choice = stream_of(op), _choice(op)
    if stream is None or not judged.trace.streams[stream].is_default:
        return None
    return choice if choice in (StreamChoice.LEFT_OUT, StreamChoice.AS_DATA) else None


def _problem(judged: Judged, conflict: Conflict, off: OpId, choice: StreamChoice, other: StreamId) -> Problem:
    judged = judged.seen_from(off, conflict.earlier if off == conflict.later else conflict.later)
    op, name, stream = judged.op(off), pairs.subject(judged, conflict), quoted(judged.stream_name(other))
    first = off == conflict.earlier
    access = conflict.earlier_access if first else conflict.later_access
    does = f"{_verb(access)} {name} {on(judged, op)}"
    if choice is StreamChoice.AS_DATA:
        saw = f"{_call(op)} gets its stream among the kernel's arguments only, and"
    else:
        saw = f"{_call(op)} names no stream, and"
    return Problem(
        later=conflict.later,
        earlier=conflict.earlier,
        buffer=conflict.buffer,
        primary=off,
        message=f"{saw} {does}, unordered with {stream}",
        label="on the default stream",
        help=_help(op, choice, stream),
        notes=_notes(judged, conflict, other, first=first),
        doubts=conflict.doubts,
        explains=frozenset({(conflict.earlier, conflict.later)}),
    )


def _call(op: Op) -> str:
    said = what(op)
    return said if said.startswith("`") else f"the {said}"


def _verb(access: Access) -> str:
    match access.mode:
        case Mode.READ:
            return "reads"
        case Mode.WRITE:
            return "writes"
        case Mode.UPDATE | Mode.ADD:
            return "uses"


def _help(op: Op, choice: StreamChoice, stream: str) -> str:
    if choice is StreamChoice.AS_DATA:
        return f"give {_call(op)} its stream where it takes one, not among the kernel's arguments"
    return f"give {_call(op)} the stream of the related work, {stream}, or order the two"


def _notes(judged: Judged, conflict: Conflict, stream: StreamId, *, first: bool) -> tuple[Note, ...]:
    if not first:
        return pairs.notes(judged, conflict)
    later = judged.op(conflict.later)
    verb = "written" if conflict.later_access.mode.writes else "read"
    place = on(judged, later)
    if isinstance(later, HostAccess):
        place += f", which waited for {quoted(judged.stream_name(stream))}"
    return (Note(later.at.span, f"{verb} {place} here"),)


RULE = Rule(
    code="SL104",
    name="launch-off-stream",
    summary="device work is on the default stream because its stream was left out, or passed as kernel data",
    severity=Severity.ERROR,
    about=About.CAUSE,
    check=check,
    witness=ByValue(),
    doc="""\
## What it does
Reports an unordered pair of which one side is on the default stream only because the call was given
no stream, while the other side names the stream that it runs on. It is also reported where the host
waits for that stream and then uses memory that the default stream may still be writing.

Two forms are recognized:

- the argument is left out, or is `None`: `kernel[grid, block](x)`, `x.get()`;
- the stream stands among the arguments of the kernel: `kernel[grid, block](x, stream)`,
  `kernel((grid,), (block,), (x, n, stream))`, `cuLaunchKernel(..., 0, 0, args, 0)` with the stream in
  `args`.

## Why is this bad?
A launch or a copy without a stream goes to the default stream. It looks as if it belonged to the work
around it, and nothing orders it with that work unless the other stream is a blocking one.

## Example
```python
stream = cupy.cuda.Stream(non_blocking=True)
scale((blocks,), (256,), (x, n), stream=stream)
host = x.get()                         # on the null stream: the kernel may still be running
```

Use instead:
```python
stream = cupy.cuda.Stream(non_blocking=True)
scale((blocks,), (256,), (x, n), stream=stream)
host = x.get(stream=stream)
```

## Limits
Only pairs that nothing orders are reported: `numba.cuda.stream()` and `cupy.cuda.Stream()` are
blocking, and so ordered with the legacy default stream. Where the other side has no stream argument
either, as in PyTorch or in a `with stream:` block, the pair is SL101 or SL102. A default stream that is
named (`stream=device.default_stream`, or `0` in cuda-python) was not left out.

## Source
[cuLaunchKernel](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXEC.html),
[kernel invocation in Numba](https://nvidia.github.io/numba-cuda/user/kernels.html#kernel-invocation),
[cupy.RawKernel](https://docs.cupy.dev/en/stable/reference/generated/cupy.RawKernel.html); measured:
the legacy default stream and a non-blocking stream are not ordered, and the synchronization of an idle
blocking stream does not cover earlier work of the legacy stream.
""",
)
