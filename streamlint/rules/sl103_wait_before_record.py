"""SL103 wait-before-record."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules import recorded_beside, recorded_in_group
from streamlint.rules.base import (
    About,
    Judged,
    Note,
    Problem,
    Rule,
)
from streamlint.trace import Event, LaneId, OpId, Record, Spawn, SyncEvent, Wait
from streamlint.witness import ByValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.source import Span


def check(judged: Judged) -> Iterator[Problem]:
    """Waits that see no record on any turn.

    Loop turns and repeated outside calls share a place: a wait that sees a record on one of them is
    the first round of double buffering, not this. An event that this path never records must not be
    recorded by any other path of the module either. What another thread records it may record too late.
    """
    yield from recorded_beside.problems(judged)
    yield from recorded_in_group.problems(judged)
    for number in _empty_waits(judged):
        wait = judged.op(number)
        assert isinstance(wait, (Wait, SyncEvent))
        event = judged.trace.events[wait.event]
        record = next(
            (op for op in judged.trace.ops[number:] if isinstance(op, Record) and op.event == wait.event),
            None,
        )
        if record is not None and (
            event.function != wait.at.function or record.at.call != wait.at.call or record.at.turn
        ):
            # An event that outlives the function: the next call's wait sees this call's record.
            continue
        if record is not None and _has_threads(judged):
            # Another thread may record it in time.
            continue
        if record is None and _has_other_threads(judged, wait.lane, event):
            continue
        name = judged.seen_from(number).event_name(event.id)
        yield Problem(
            later=number,
            message=f"{name} has not been recorded when it is waited for: the wait orders nothing",
            label="waits for nothing",
            help=f"record {name} after the work that must be waited for, and before this wait",
            notes=(Note(record.at.span, "first recorded here"),) if record is not None else (),
            doubts=wait.doubts | (record.doubts if record is not None else frozenset()),
            explains=recorded_in_group.races_behind(judged, number),
            unless_recorded=event if record is None else None,
            settled_by=partial(_sees_a_record, wait.at.span),
        )


def _sees_a_record(place: Span, other: Judged) -> bool:
    """Whether another path goes round a loop once more, where the wait sees the record of the first round."""
    return any(
        isinstance(op, (Wait, SyncEvent))
        and op.at.span == place
        and other.hb.record_seen_by(OpId(number)) is not None
        for number, op in enumerate(other.trace.ops)
    )


def _has_threads(judged: Judged) -> bool:
    return any(isinstance(op, Spawn) for op in judged.trace.ops)


def _has_other_threads(judged: Judged, lane: LaneId, event: Event) -> bool:
    """Whether a thread may record an event that no path records, in time for who waits.

    Not where only the one that waits was started, with the event: ``pool.submit(copy, torch.cuda.Event())``.
    A caller who gets the event as well is one more.
    """
    started = {op.child for op in judged.trace.ops if isinstance(op, Spawn)}
    return bool(started) and (event.handed or event.lane == lane or started != {lane})


def _empty_waits(judged: Judged) -> Iterator[OpId]:
    """The first execution of each wait that never sees a record, for each place that makes its events.

    One that serves others as well (``for event in context.events: event.wait()``) sees the records of these:
    they tell nothing of an event that another statement has made, and that no record follows.
    """
    seen: set[tuple[Span, Span | None]] = set()
    empty: dict[tuple[Span, Span | None], OpId] = {}
    recorded = {op.event for op in judged.trace.ops if isinstance(op, Record)}
    for number, op in enumerate(judged.trace.ops):
        if not isinstance(op, (Wait, SyncEvent)):
            continue
        event = judged.trace.events[op.event]
        if event.span is None:
            continue
        made = event.span if op.event not in recorded else None
        if judged.hb.record_seen_by(OpId(number)) is not None:
            seen |= {(op.at.span, event.span), (op.at.span, None)}
        else:
            empty.setdefault((op.at.span, made), OpId(number))
    yield from (number for key, number in empty.items() if key not in seen)


RULE = Rule(
    code="SL103",
    name="wait-before-record",
    summary="a wait on an event that no earlier path can have recorded",
    severity=Severity.ERROR,
    about=About.CAUSE,
    check=check,
    witness=ByValue(names_earlier=False),
    doc="""\
## What it does
Reports a wait on an event (by a stream or by the host) that comes before the event is recorded for
the first time, or may come before another thread records it: where that thread has given no sign since.
Also reports an event that is recorded while a group of NCCL calls is open: they are queued when the group
ends, behind the event; and one that a function makes and puts away (`context.events.append(event)`) for
others who wait for it, where nothing in sight records it.

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

and, of an event that another thread records:
```python
self.jobs.put(job)
job.launched.wait()                            # a threading.Event, set behind job.done.record()
torch.cuda.current_stream().wait_event(job.done)
```

## Limits
The first rounds of correct double buffering wait on unrecorded events; only a wait that can never
see a record is reported.

## Source
[cudaStreamWaitEvent](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html);
measured: stale data, and the call returns success.
""",
)
