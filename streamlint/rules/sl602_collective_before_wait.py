"""SL602 collective-before-wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules import pairs
from streamlint.rules.base import (
    Judged,
    Note,
    Problem,
    Rule,
    is_entry,
    on,
)
from streamlint.trace import (
    Doubt,
    EventId,
    Launch,
    OpId,
    SyncEvent,
    Wait,
)
from streamlint.witness import ByValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.order.conflicts import Conflict


def check(judged: Judged) -> Iterator[Problem]:
    """Conflicts whose earlier side is a collective that runs aside."""
    for conflict in judged.conflicts:
        earlier = judged.op(conflict.earlier)
        if (
            isinstance(earlier, Launch)
            and earlier.completes is not None
            # What unseen code does between two calls it orders itself with what the first one left.
            and not is_entry(judged.op(conflict.later))
        ):
            yield _problem(
                judged.seen_from(conflict.later, conflict.earlier), conflict, earlier, earlier.completes
            )


def _problem(judged: Judged, conflict: Conflict, collective: Launch, handle: EventId) -> Problem:
    later = judged.op(conflict.later)
    name, verb = pairs.subject(judged, conflict), _verb(conflict)
    doubts = conflict.doubts
    if collective.at.call != later.at.call:
        # start() and finish(): who calls them in turn is not seen.
        doubts |= {Doubt.SOME_PATHS}
    event = judged.trace.events[handle]
    work = "" if event.implied else judged.event_name(handle)
    if work.startswith("`"):
        wait = f"call `{work.strip('`')}.{event.wait}()`"
    elif event.implied:
        # A functional collective gives its result, and no handle.
        wait = "call `wait_tensor` with what it works on"
    else:
        wait = f"keep what `{collective.name}` gives and call its `{event.wait}()`"
    return Problem(
        later=conflict.later,
        earlier=conflict.earlier,
        buffer=conflict.buffer,
        message=f"{name} is {verb} {on(judged, later)} before the wait for `{collective.name}`",
        label=f"{verb} {on(judged, later)}",
        help=f"{wait} before {name} is {verb}",
        notes=(
            Note(collective.at.span, f"`{collective.name}` starts here, on a stream of its own"),
            *_late_wait(judged, conflict.later, handle),
        ),
        doubts=doubts,
        explains=frozenset({(conflict.earlier, conflict.later)}),
    )


def _verb(conflict: Conflict) -> str:
    return "overwritten" if not conflict.later_access.mode.reads else "used"


def _late_wait(judged: Judged, later: OpId, handle: EventId) -> Iterator[Note]:
    for op in judged.trace.ops[later + 1 :]:
        if isinstance(op, (Wait, SyncEvent)) and op.event == handle:
            yield Note(op.at.span, "waited for here, too late")
            return


RULE = Rule(
    code="SL602",
    name="collective-before-wait",
    summary="the buffer of an `async_op=True` collective used before its wait",
    severity=Severity.ERROR,
    check=check,
    witness=ByValue(),
    doc="""\
## What it does
Reports tensors given to a collective with `async_op=True`, `isend` or `irecv` that are used before
`work.wait()`: results that are read or overwritten, inputs that are overwritten. And
what the operators of `torch.ops._c10d_functional` give, used before `wait_tensor`.

## Why is this bad?
The collective runs on a stream of its process group. Only `work.wait()` makes the current stream wait
for it. What comes before reads values that are not reduced yet, or changes what the others receive.

## Example
```python
work = dist.all_reduce(grad, async_op=True)
norm = grad.norm()           # may be the norm of this rank alone
work.wait()
```

Use instead:
```python
work = dist.all_reduce(grad, async_op=True)
work.wait()
norm = grad.norm()
```

## Limits
A flag that is left to callers is taken to be set on one path. A handle that unresolved code receives may
be waited for there, and one that is kept for another method may be waited for by it: such uses are only
`possible`. Collectives on host tensors are not followed. `work.wait()` does not make the
host wait: see SL204.

## Source
[torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html#synchronous-and-asynchronous-collective-operations).
""",
)
