"""SL905 redundant-sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from streamlint.finding import Severity
from streamlint.order.hb import Verdict
from streamlint.rules.base import Judged, Note, Problem, Rule, part, quoted
from streamlint.trace import (
    BeginCapture,
    Op,
    OpId,
    Purpose,
    Record,
    SyncEvent,
    Wait,
)
from streamlint.witness import NoWitness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.source import Span


def check(judged: Judged) -> Iterator[Problem]:
    """Waits for a record that what waits is ordered after already.

    The record itself is what counts, not the work in sight before it: an unresolved call may have
    queued more. Waits of captures become edges of a graph, which runs at another time.
    """
    if judged.numbers(BeginCapture):
        return
    for number, op in enumerate(judged.trace.ops):
        if _waits(op):
            record = judged.hb.record_seen_by(OpId(number))
            if record is not None and _is_known(judged, OpId(number), op, record):
                yield _problem(judged, OpId(number), op, record)


def needed(judged: Judged) -> Iterator[Span]:
    """Where waits are that order something, or may."""
    for number, op in enumerate(judged.trace.ops):
        if _waits(op):
            record = judged.hb.record_seen_by(OpId(number))
            if record is None or not _is_known(judged, OpId(number), op, record):
                yield op.at.span


def _waits(op: Op) -> TypeGuard[Wait | SyncEvent]:
    """Polling (``while not e.query()``) is not a wait that could be left out."""
    return isinstance(op, Wait) or (isinstance(op, SyncEvent) and op.purpose is not Purpose.ANSWER)


def _is_known(judged: Judged, number: OpId, op: Wait | SyncEvent, record: OpId) -> bool:
    recorded = judged.op(record)
    if not isinstance(recorded, Record) or recorded.doubts or op.doubts:
        return False
    if (recorded.at.call, recorded.lane) != (op.at.call, op.lane):
        # Between two calls from outside the caller may record the event elsewhere.
        return False
    if isinstance(op, SyncEvent):
        return judged.hb.ordered_at_issue(record, number).verdict is Verdict.YES
    if recorded.stream == op.stream:
        return True
    if judged.hb.ordered_at_issue(record, number).verdict is Verdict.YES:
        return True
    before = _previous(judged, number, op)
    return before is not None and judged.hb.ordered(record, before).verdict is Verdict.YES


def _previous(judged: Judged, number: OpId, op: Wait) -> OpId | None:
    """The last wait of the same stream: work there may come after more than its stream's waits say."""
    before = part(judged.index.waits[op.stream], before=number)
    return before[-1] if before else None


def _problem(judged: Judged, number: OpId, op: Wait | SyncEvent, record: OpId) -> Problem:
    recorded = judged.op(record)
    assert isinstance(recorded, Record)
    judged = judged.seen_from(number)
    owner = quoted(judged.stream_name(recorded.stream))
    event = judged.trace.events[recorded.event]
    moved = f", or record {judged.event_name(event.id)} where the work that it should cover is queued"
    if isinstance(op, Wait) and recorded.stream == op.stream:
        message = f"{owner} waits for its own record, after which it comes in any case"
    else:
        waiter = "the host" if isinstance(op, SyncEvent) else quoted(judged.stream_name(op.stream))
        message = f"{waiter} waits for a record of {owner} that it has waited for already"
    return Problem(
        later=number,
        message=message,
        label="orders nothing new",
        help=f"leave it out{moved if event.is_named else ''}",
        notes=(Note(recorded.at.span, f"recorded on {owner} here"),),
        on_every_path=True,
    )


RULE = Rule(
    code="SL905",
    name="redundant-sync",
    summary="a wait or synchronize that orders nothing new",
    severity=Severity.ADVICE,
    default=False,
    check=check,
    witness=NoWitness("a wait too many changes no value"),
    doc="""\
## What it does
Reports waits for an event that its last record makes pointless on every path: a stream that waits for an
event recorded on itself, or for a record that it, or the host, has waited for before.

## Why is this bad?
It does no harm, but it was mostly meant to order something: `event.wait()` inside `with
torch.cuda.stream(side)` makes `side` wait, not the stream outside.

## Example
```python
with torch.cuda.stream(side):
    y = f(x)
    done.record()
    done.wait()            # `side` waits for itself
```

Use instead:
```python
with torch.cuda.stream(side):
    y = f(x)
    done.record()
done.wait()
```

## Limits
Synchronizations of whole streams and devices are not looked at: code that is not in sight may have
queued work there.

## Source
Work of one stream runs in the order in which it was queued:
[CUDA streams](https://docs.nvidia.com/cuda/cuda-programming-guide/02-basics/asynchronous-execution.html).
""",
)
