"""SL904 default-stream-serializes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.order.hb import Verdict
from streamlint.rules.base import (
    Judged,
    Note,
    Problem,
    Rule,
    quoted,
    stream_of,
    what,
)
from streamlint.trace import Copy, HostEffect, Launch, OpId, StreamKind
from streamlint.witness import NoWitness

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(judged: Judged) -> Iterator[Problem]:
    """Work on the legacy stream between work on two blocking streams that has nothing to do with it."""
    reported = set()
    for number, op in enumerate(judged.trace.ops):
        if not _is_async(op) or _kind(judged, OpId(number)) is not StreamKind.LEGACY:
            continue
        if op.doubts or op.at.span in reported:
            continue
        before = _neighbour(judged, OpId(number), range(number - 1, -1, -1))
        after = _neighbour(judged, OpId(number), range(number + 1, len(judged.trace.ops)))
        if before is None or after is None:
            continue
        first, second = judged.op(before), judged.op(after)
        # What the two share may need the order that the default stream gives them.
        if stream_of(first) == stream_of(second) or _memory(first) & _memory(second):
            continue
        if judged.hb.ordered_at_issue(before, OpId(number)).verdict is Verdict.NO:
            reported.add(op.at.span)
            yield _problem(judged, OpId(number), before, after)


def _is_async(op: object) -> bool:
    return isinstance(op, Launch) or (isinstance(op, Copy) and op.host is HostEffect.ASYNC)


def _kind(judged: Judged, number: OpId) -> StreamKind | None:
    stream = stream_of(judged.op(number))
    return None if stream is None else judged.trace.streams[stream].kind


def _neighbour(judged: Judged, number: OpId, order: range) -> OpId | None:
    """The next work on a blocking stream; None if it shares memory with the op, which may want the order."""
    op = judged.op(number)
    for other in order:
        near = judged.op(OpId(other))
        if near.at.call != op.at.call:
            return None
        if _is_async(near) and _kind(judged, OpId(other)) is StreamKind.BLOCKING:
            shared = _memory(near) & _memory(op)
            return None if shared or near.doubts else OpId(other)
    return None


def _memory(op: object) -> set[object]:
    return {access.buffer for access in op.accesses} if isinstance(op, (Launch, Copy)) else set()


def _problem(judged: Judged, number: OpId, before: OpId, after: OpId) -> Problem:
    op, first, second = judged.op(number), judged.op(before), judged.op(after)
    streams = [stream_of(first), stream_of(second)]
    names = [quoted(judged.stream_name(stream)) for stream in streams if stream is not None]
    return Problem(
        later=number,
        message=(
            f"{what(op)} on the default stream comes between {names[0]} and {names[-1]}, "
            "which do not overlap for that"
        ),
        label="holds back all blocking streams",
        help="give it a stream, or make the streams non-blocking",
        notes=(
            Note(first.at.span, f"queued on {names[0]} before"),
            Note(second.at.span, f"queued on {names[-1]} after"),
        ),
    )


RULE = Rule(
    code="SL904",
    name="default-stream-serializes",
    summary="a legacy-stream operation between operations on blocking streams",
    severity=Severity.ADVICE,
    default=False,
    check=check,
    witness=NoWitness("what is lost is overlap on the device; the host waits for nothing"),
    doc="""\
## What it does
Reports work on the legacy default stream that is queued between work on two blocking streams and shares
no memory with either.

## Why is this bad?
The legacy stream is a barrier for all blocking streams: it waits for what they have queued, and what
they queue next waits for it. The two streams do not overlap.

## Example
```python
a, b = cupy.cuda.Stream(), cupy.cuda.Stream()
with a:
    x *= 2
z += 1              # the default stream: waits for `a`, and `b` waits for it
with b:
    y *= 2
```

Use instead:
```python
a, b = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
```

## Limits
Only work that is surely on the legacy stream, between streams that are surely blocking.

## Source
[Stream synchronization behavior](https://docs.nvidia.com/cuda/cuda-runtime-api/stream-sync-behavior.html).
""",
)
