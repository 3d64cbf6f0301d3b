"""SL201 host-read-before-sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules import pairs, told_too_early
from streamlint.rules.base import (
    About,
    Judged,
    Problem,
    Rule,
    is_handed_out,
    is_return,
    quoted,
)
from streamlint.trace import Doubt, Space
from streamlint.witness import ByValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.order.conflicts import Conflict
    from streamlint.trace import Op


def check(judged: Judged) -> Iterator[Problem]:
    for conflict in pairs.host_pairs(judged, reads=True):
        here = judged.seen_from(conflict.later, conflict.earlier)
        earlier = here.op(conflict.earlier)
        stream = here.stream_at(earlier)
        if stream is None:
            continue
        name = quoted(here.stream_name(stream))
        doubts = conflict.doubts
        if pairs.place(here, conflict) in (Space.UNKNOWN, Space.DEVICE):
            doubts |= {Doubt.ALIAS}
        yield Problem(
            later=conflict.later,
            earlier=conflict.earlier,
            buffer=conflict.buffer,
            message=f"{_read(here, conflict)} while {name} may still be writing it",
            label=_handed_out(here.op(conflict.later)) or "read by the host",
            help=pairs.host_help(here, conflict),
            notes=pairs.notes(here, conflict),
            doubts=doubts,
        )
    yield from told_too_early.problems(judged, reads=True)


def _read(judged: Judged, conflict: Conflict) -> str:
    subject = pairs.subject(judged, conflict)
    how = _handed_out(judged.op(conflict.later))
    return f"{subject} is {how}" if how else f"the host reads {subject}"


def _handed_out(op: Op) -> str:
    """How a function hands it out; "" of what reads it by itself."""
    if is_return(op):
        return "returned"
    return "yielded" if is_handed_out(op) else ""


RULE = Rule(
    code="SL201",
    name="host-read-before-sync",
    summary="the host reads an unfinished asynchronous copy, or managed memory a kernel still writes",
    severity=Severity.ERROR,
    about=About.RACE,
    check=check,
    witness=ByValue(),
    doc="""\
## What it does
Reports host code that reads memory which a stream may still be writing: the pinned destination of
an asynchronous copy, or managed memory that a kernel fills.

## Why is this bad?
`tensor.to("cpu", non_blocking=True)` and `cudaMemcpyAsync` into pinned memory return before the
copy has run. The host reads old bytes, and no error is raised.

## Example
```python
host = scores.to("cpu", non_blocking=True)
best = host.max().item()             # the copy may not have run yet
```

Use instead:
```python
host = scores.to("cpu", non_blocking=True)
done = torch.cuda.current_stream().record_event()
...
done.synchronize()
best = host.max().item()
```

A function may return the target of a copy that is under way, and leave the wait to its caller. Where it
records an event behind the copy, and no code waits for that event, this is reported too. So is
`return host.numpy()`, where no code in sight waits for the copy: who reads an array knows of no stream.

## Limits
`host.numpy()` is a view, not a read; using the view is. A copy into pageable memory was measured
to block, which no document promises: what only that protects is reported as `possible`.

## Source
[Memcpy synchronization behavior](https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html);
measured: the host read 0.0 at once and 7.0 after a synchronize.
""",
)
