"""SL103 wait-before-record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules.base import Judged, Note, Problem, Rule, quoted, stream_of
from streamlint.trace import OpId, Record, SyncEvent, Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.source import Span


def check(judged: Judged) -> Iterator[Problem]:
    """Waits on an event of this trace whose first record comes later, on every turn.

    Loop turns and repeated outside calls share a place: a wait that sees a record on any turn is
    the first round of double buffering, not this.
    """
    ops = judged.trace.ops
    seen: set[Span] = set()
    empty: dict[Span, OpId] = {}
    recorded = {op.event for op in ops if isinstance(op, Record)}
    for number, op in enumerate(ops):
        if not isinstance(op, (Wait, SyncEvent)) or judged.trace.events[op.event].span is None:
            continue
        place = op.at.span
        if judged.hb.record_seen_by(OpId(number)) is not None:
            seen.add(place)
        elif op.event in recorded and place not in empty:
            empty[place] = OpId(number)
    for place, number in empty.items():
        if place in seen:
            continue
        wait = ops[number]
        if not isinstance(wait, (Wait, SyncEvent)):
            continue
        later = next(o for o in ops[number:] if isinstance(o, Record) and o.event == wait.event)
        if later.at.call != wait.at.call or later.at.turn:
            continue
        name = quoted(judged.trace.events[wait.event].name)
        yield Problem(
            later=number,
            message=f"{name} has not been recorded when it is waited for: the wait orders nothing",
            label="waits for nothing",
            help="record the event after the work that must be waited for, and before this wait",
            notes=(Note(later.at.span, "first recorded here"),),
            doubts=wait.doubts,
            explains=_explained(judged, number, later),
        )


def _explained(judged: Judged, wait: OpId, record: Record) -> frozenset[tuple[OpId, OpId]]:
    """The races that the wait would have prevented, had it seen the record."""
    op = judged.op(wait)
    waiting = op.stream if isinstance(op, Wait) else None
    return frozenset(
        (conflict.earlier, conflict.later)
        for conflict in judged.conflicts
        if conflict.later > wait
        and stream_of(judged.op(conflict.later)) == waiting
        and stream_of(judged.op(conflict.earlier)) == record.stream
    )


RULE = Rule(
    code="SL103",
    name="wait-before-record",
    summary="a wait on an event that no earlier path can have recorded",
    severity=Severity.ERROR,
    check=check,
    doc="""\
## What it does
Reports a wait on an event (by a stream or by the host) that comes before the event is recorded for
the first time.

## Why is this bad?
Waiting for an event that was never recorded is a no-op that reports success. The order that the
code asks for does not exist.

## Example
```python
done = torch.cuda.Event()
torch.cuda.current_stream().wait_event(done)   # nothing was recorded yet
with torch.cuda.stream(side):
    y = f(x)
    done.record()
```

Use instead:
```python
done = torch.cuda.Event()
with torch.cuda.stream(side):
    y = f(x)
    done.record()
torch.cuda.current_stream().wait_event(done)
```

## Limits
The first rounds of correct double buffering wait on unrecorded events; only a wait that can never
see a record is reported.

## Source
[cudaStreamWaitEvent](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html);
measured: stale data, and the call returns success.
""",
)
