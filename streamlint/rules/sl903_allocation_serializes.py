"""SL903 allocation-serializes."""

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
)
from streamlint.trace import (
    Copy,
    Free,
    HostEffect,
    Launch,
    OpId,
    StreamKind,
    SyncDevice,
)
from streamlint.witness import ByTime

if TYPE_CHECKING:
    from collections.abc import Iterator

_BY_DEFAULT = (StreamKind.LEGACY, StreamKind.CURRENT, StreamKind.PER_THREAD)


def check(judged: Judged) -> Iterator[Problem]:
    """Frees that wait for the whole device, with work pending on a stream and more of it to come."""
    ops = judged.trace.ops
    reported = set()
    for number in range(1, len(ops)):
        freed, waited = ops[number], ops[number - 1]
        if (
            not isinstance(freed, Free)
            or not isinstance(waited, SyncDevice)
            or freed.at.span != waited.at.span
            or freed.at.span in reported
        ):
            continue
        pending = _pending(judged, OpId(number - 1))
        if pending is not None and _goes_on(judged, OpId(number)):
            reported.add(freed.at.span)
            yield _problem(judged, OpId(number), freed, pending)


def _pending(judged: Judged, sync: OpId) -> OpId | None:
    """The last work on a stream of its own that the host does not know to be complete."""
    here = judged.op(sync)
    for number in range(sync - 1, -1, -1):
        op = judged.op(OpId(number))
        if op.at.call != here.at.call:
            return None
        if _is_work_aside(judged, OpId(number)):
            before = judged.hb.ordered_at_issue(OpId(number), sync)
            return OpId(number) if before.verdict is Verdict.NO else None
    return None


def _goes_on(judged: Judged, free: OpId) -> bool:
    return any(
        judged.op(OpId(number)).at.call == judged.op(free).at.call and _is_work_aside(judged, OpId(number))
        for number in range(free + 1, len(judged.trace.ops))
    )


def _is_work_aside(judged: Judged, number: OpId) -> bool:
    op = judged.op(number)
    if isinstance(op, Launch) and not op.accesses:
        # Work that is captured does not run.
        return False
    if isinstance(op, Copy) and op.host is not HostEffect.ASYNC:
        return False
    return isinstance(op, (Launch, Copy)) and judged.trace.streams[op.stream].kind not in _BY_DEFAULT


def _problem(judged: Judged, number: OpId, freed: Free, pending: OpId) -> Problem:
    op = judged.op(pending)
    stream = stream_of(op)
    assert stream is not None
    name, busy = quoted(judged.buffer_name(freed.buffer)), quoted(judged.stream_name(stream))
    return Problem(
        later=number,
        buffer=freed.buffer,
        message=(
            f"`{freed.name}` of {name} waits for the whole device, {busy} included, between asynchronous work"
        ),
        label="waits for the device",
        help="free after the loop, reuse the memory, or use `cudaMallocAsync` and `cudaFreeAsync`",
        notes=(Note(op.at.span, f"queued on {busy} here"),),
        doubts=op.doubts | freed.doubts,
    )


RULE = Rule(
    code="SL903",
    name="allocation-serializes",
    summary="`cudaFree`, `cudaFreeHost` and the like between asynchronous work wait for the device",
    severity=Severity.ADVICE,
    default=False,
    check=check,
    witness=ByTime(),
    doc="""\
## What it does
Reports `cudaFree`, `cudaFreeHost` and `cudaHostUnregister` while work is pending on a stream, where the
code goes on to queue more work on streams.

## Why is this bad?
These calls wait until the whole device is idle. In a loop over several streams they take away all overlap.

## Example
```python
for i, tile in enumerate(tiles):
    s = streams[i % 2]
    tmp = check(cudart.cudaMalloc(n))
    launch(tile, tmp, s)
    check(cudart.cudaFree(tmp))
```

Use instead:
```python
for i, tile in enumerate(tiles):
    s = streams[i % 2]
    tmp = check(cudart.cudaMallocAsync(n, s))
    launch(tile, tmp, s)
    check(cudart.cudaFreeAsync(tmp, s))
```

## Limits
The allocation itself was not seen to wait, and is not reported.

## Source
Measured: `cudaFree` of `cudaMalloc` memory, `cudaFreeHost` and `cudaHostUnregister` wait for the whole
device; no document promises it.
""",
)
