"""SL701 elapsed-before-sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.order.hb import Verdict
from streamlint.rules.base import (
    Judged,
    Note,
    Problem,
    Rule,
    last_barrier,
)
from streamlint.trace import CudaCall, EventId, OpId, Record
from streamlint.witness import ByLateError

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(judged: Judged) -> Iterator[Problem]:
    for number, op in enumerate(judged.trace.ops):
        if isinstance(op, CudaCall) and op.times:
            yield from _judge(judged, OpId(number), op)


def _judge(judged: Judged, number: OpId, call: CudaCall) -> Iterator[Problem]:
    """The event that cannot measure, or else the later of the two that may not be complete."""
    for event in call.times:
        if judged.trace.events[event].timing is False:
            yield _without_timing(judged, number, event)
            return
    for event in reversed(call.times):
        if judged.trace.events[event].timing is None:
            # An event of another kind of device, whose library is not known here.
            continue
        record = _last_record(judged, number, event)
        if record is not None:
            problem = _incomplete(judged, number, event, record)
            if problem is not None:
                yield problem
                return


def _last_record(judged: Judged, before: OpId, event: EventId) -> OpId | None:
    """The record that the event holds; None if another call from outside, or another thread, made it."""
    here = judged.op(before)
    for number in range(before - 1, -1, -1):
        op = judged.op(OpId(number))
        if isinstance(op, Record) and op.event == event:
            same = op.at.call == here.at.call and op.lane == here.lane
            return OpId(number) if same else None
    return None


def _incomplete(judged: Judged, number: OpId, event: EventId, record: OpId) -> Problem | None:
    ordering = judged.hb.ordered(record, number)
    if ordering.verdict is Verdict.YES:
        return None
    recorded = judged.op(record)
    name = judged.event_name(event)
    notes = [Note(recorded.at.span, f"{name} is recorded here")]
    return Problem(
        later=number,
        earlier=record,
        message=f"the time of {name} is read before the host has waited for it",
        label="may not be complete",
        help=f"synchronize {name}, its stream or the device before the time is read",
        notes=(*notes, *last_barrier(judged, record, number)),
        doubts=ordering.doubts | recorded.doubts | judged.op(number).doubts,
    )


def _without_timing(judged: Judged, number: OpId, event: EventId) -> Problem:
    name, made = judged.event_name(event), judged.trace.events[event].span
    return Problem(
        later=number,
        message=f"{name} was made without timing",
        label="has no time",
        help=f"make {name} with timing: `torch.cuda.Event(enable_timing=True)`",
        notes=() if made is None else (Note(made, "made here"),),
        doubts=judged.op(number).doubts,
    )


RULE = Rule(
    code="SL701",
    name="elapsed-before-sync",
    summary="event timing read before completion, or on events without timing",
    severity=Severity.ERROR,
    check=check,
    witness=ByLateError(frozenset({400, 600})),
    doc="""\
## What it does
Reports `start.elapsed_time(end)` and its kin where nothing makes the host wait for `end` after it was
recorded, and where one of the events was made without timing.

## Why is this bad?
The call does not wait: as long as the work before `end` runs it fails with "device not ready". It fails
or works depending on timing. An event without timing always fails.

## Example
```python
start.record()
y = model(x)
end.record()
return start.elapsed_time(end)
```

Use instead:
```python
start.record()
y = model(x)
end.record()
end.synchronize()
return start.elapsed_time(end)
```

## Limits
Events recorded in one method and read in another are left to the caller.

## Source
[cudaEventElapsedTime](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EVENT.html).
""",
)
