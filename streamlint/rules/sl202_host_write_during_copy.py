"""SL202 host-write-during-copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.order.conflicts import ConflictKind
from streamlint.rules import pairs, told_too_early
from streamlint.rules.base import (
    About,
    Judged,
    Problem,
    Rule,
    quoted,
    what,
)
from streamlint.trace import Doubt, Space
from streamlint.witness import ByValue

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(judged: Judged) -> Iterator[Problem]:
    for conflict in pairs.host_pairs(judged, reads=False):
        here = judged.seen_from(conflict.later, conflict.earlier)
        earlier = here.op(conflict.earlier)
        stream = here.stream_at(earlier)
        if stream is None:
            continue
        name = quoted(here.stream_name(stream))
        doing = "reading" if conflict.kind is ConflictKind.WRITE_AFTER_READ else "writing"
        doubts = conflict.doubts
        if pairs.place(here, conflict) not in (Space.PINNED, Space.MANAGED):
            doubts |= {Doubt.ALIAS}
        written = pairs.subject(here, conflict)
        yield Problem(
            later=conflict.later,
            earlier=conflict.earlier,
            buffer=conflict.buffer,
            message=f"the host overwrites {written} while {name} may still be {doing} it",
            label="overwritten by the host",
            help=(
                f"wait for the {what(earlier)} before {written} is overwritten "
                f"(synchronize an event recorded on {name} after it), or use other memory for each step"
            ),
            notes=pairs.notes(here, conflict),
            doubts=doubts,
        )
    yield from told_too_early.problems(judged, reads=False)


RULE = Rule(
    code="SL202",
    name="host-write-during-copy",
    summary="the host overwrites memory that an asynchronous copy or kernel still reads or writes",
    severity=Severity.ERROR,
    about=About.RACE,
    check=check,
    witness=ByValue(),
    doc="""\
## What it does
Reports host code that overwrites pinned (or managed) memory while a queued copy or kernel may
still use it. A staging buffer refilled on every call is the usual place.

## Why is this bad?
An asynchronous copy from pinned memory reads its source when the copy engine gets to it, not when
the call is made. The device then receives the next step's values.

## Example
```python
for ids in batches:
    staging[: len(ids)] = ids                      # pinned, one buffer for all steps
    device_ids.copy_(staging, non_blocking=True)
    step(device_ids)
```

Use instead:
```python
for ids in batches:
    copied.synchronize()                           # the event of the last copy
    staging[: len(ids)] = ids
    device_ids.copy_(staging, non_blocking=True)
    copied.record()
    step(device_ids)
```

## Limits
Pageable memory is staged by the driver before the call returns: refilling it is safe, and silent.

## Source
[Memcpy synchronization behavior](https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html);
measured: a 4 MB pinned source overwritten before a synchronize, the device got the new values.
""",
)
