"""SL902 implicit-sync-in-loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules.base import Judged, Note, Problem, Rule, quoted
from streamlint.trace import Launch, OpId, Purpose, SyncStream
from streamlint.witness import ByTime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.source import Span
    from streamlint.trace import LaneId


def check(judged: Judged) -> Iterator[Problem]:
    """Reads that came around in a loop, with other work queued on the stream since the time before.

    Only where no branch was assumed: ``if step % 100 == 0: log(loss.item())`` is as it should be.
    """
    if judged.trace.path:
        return
    last: dict[tuple[Span, tuple[Span, ...], int, LaneId], OpId] = {}
    reported: set[Span] = set()
    for number, op in enumerate(judged.trace.ops):
        if not isinstance(op, SyncStream) or op.purpose is not Purpose.VALUES or op.doubts:
            continue
        place = (op.at.span, op.at.calls, op.at.call, op.lane)
        before = last.get(place)
        last[place] = OpId(number)
        work = None if before is None else _work_between(judged, before, OpId(number), op)
        if work is not None and op.at.span not in reported:
            reported.add(op.at.span)
            yield _problem(judged, OpId(number), op, work)


def _work_between(judged: Judged, first: OpId, second: OpId, sync: SyncStream) -> Launch | None:
    """Work of the drained stream other than the expression that is read: ``x[0].sum().item()``."""
    for number in range(second - 1, first, -1):
        op = judged.op(OpId(number))
        if not isinstance(op, Launch) or op.stream != sync.stream:
            continue
        if not op.at.span.begins_in_line_of(sync.at.span):
            return op
    return None


def _problem(judged: Judged, number: OpId, op: SyncStream, work: Launch) -> Problem:
    stream = quoted(judged.seen_from(number).stream_name(op.stream))
    return Problem(
        later=number,
        message=f"`{op.name}` waits for {stream} on each pass of the loop",
        label=f"waits for {stream}",
        help="keep the values on the device and read them after the loop, or now and then",
        notes=(Note(work.at.span, "queued on each pass"),),
        doubts=work.doubts,
    )


RULE = Rule(
    code="SL902",
    name="implicit-sync-in-loop",
    summary="`.item()`, `float(t)`, `nonzero()` ... drain a stream on each pass of a loop",
    severity=Severity.ADVICE,
    default=False,
    check=check,
    witness=ByTime(),
    doc="""\
## What it does
Reports calls that read values of a device tensor on each pass of a loop that queues work on the same
stream: `.item()`, `.tolist()`, `float(t)`, `if t:`, `nonzero()`, `unique()`.

## Why is this bad?
The host waits until the stream is empty, and only then queues the next pass: the device idles meanwhile.

## Example
```python
for batch in batches:
    loss = step(batch)
    total += loss.item()
```

Use instead:
```python
for batch in batches:
    loss = step(batch)
    total += loss.detach()
total = total.item()
```

## Limits
Loops in which a branch had to be assumed are left out: the read may be done only now and then.

## Source
Measured: these calls wait for the current stream, and for it only.
""",
)
