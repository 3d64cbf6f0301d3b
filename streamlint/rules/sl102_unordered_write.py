"""SL102 unordered-write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.order.conflicts import ConflictKind
from streamlint.rules import pairs, read_by_threads
from streamlint.rules.base import (
    About,
    Judged,
    Note,
    Problem,
    Rule,
    on,
    quoted,
)
from streamlint.trace import Doubt
from streamlint.witness import ByValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.order.conflicts import Conflict


def check(judged: Judged) -> Iterator[Problem]:
    for conflict in pairs.device_pairs(judged, reads=False):
        here = judged.seen_from(conflict.later, conflict.earlier)
        earlier, later = here.op(conflict.earlier), here.op(conflict.later)
        user = here.stream_at(earlier)
        if user is None:
            continue
        remedy = pairs.order_help(here, conflict)
        doing = "reading" if conflict.kind is ConflictKind.WRITE_AFTER_READ else "writing"
        yield Problem(
            later=conflict.later,
            earlier=conflict.earlier,
            buffer=conflict.buffer,
            message=(
                f"{pairs.subject(here, conflict)} is overwritten {on(here, later)} "
                f"while {quoted(here.stream_name(user))} may still be {doing} it"
            ),
            label=f"overwritten {on(here, later)}",
            help=remedy.help,
            statement=remedy.statement,
            notes=pairs.notes(here, conflict),
            doubts=conflict.doubts,
        )
    for conflict in read_by_threads.overwritten(judged):
        yield _beside_thread(judged, conflict)


def _beside_thread(judged: Judged, conflict: Conflict) -> Problem:
    here = judged.seen_from(conflict.later, conflict.earlier)
    read, write = here.op(conflict.earlier), here.op(conflict.later)
    name = pairs.subject(here, conflict)
    return Problem(
        later=conflict.later,
        buffer=conflict.buffer,
        message=f"{name} is overwritten {on(here, write)} while another thread may still have to read it",
        label=f"overwritten {on(here, write)}",
        help=(
            f"wait for the thread before {name} is used again (its result, or a queue that it gives "
            "what it has read back to), or use other memory for each step"
        ),
        notes=(Note(read.at.span, "another thread reads it here"),),
        # Whether the thread runs beside, who gave the pool decides: Executor.submit() may run it at once.
        doubts=conflict.doubts | {Doubt.INFERRED},
        settled_by=read_by_threads.settled(judged, conflict.later),
    )


RULE = Rule(
    code="SL102",
    name="unordered-write",
    summary="a stream overwrites what another stream may still be reading or writing",
    severity=Severity.ERROR,
    about=About.RACE,
    check=check,
    witness=ByValue(),
    doc="""\
## What it does
Reports device work that overwrites memory which another stream may still be reading or writing, or which
another thread was given to read and nobody has waited for (`pool.submit(save, page, copied)`, then the next
copy to `page`).

## Why is this bad?
The other stream's earlier work may run after the overwrite: it then reads the new values, or its
own late write destroys them. Buffers that are reused from step to step are the usual place.

## Example
```python
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    total += bucket            # reads `bucket`
bucket.copy_(gradient)         # overwritten while `side` may still read it
```

Use instead:
```python
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    total += bucket
torch.cuda.current_stream().wait_stream(side)
bucket.copy_(gradient)
```

## Limits
Different symbolic slices of one buffer are taken as overlapping only where that is certain.

## Source
[CUDA semantics in PyTorch](https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams);
[stream synchronization behavior](https://docs.nvidia.com/cuda/cuda-runtime-api/stream-sync-behavior.html).
""",
)
