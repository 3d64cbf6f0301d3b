"""SL101 unordered-read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules import pairs
from streamlint.rules.base import (
    About,
    Judged,
    Problem,
    Remedy,
    Rule,
    is_return,
    on,
    quoted,
)
from streamlint.trace import Copy, HostEffect, Op, Origin, Role
from streamlint.witness import ByValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.order.conflicts import Conflict
    from streamlint.trace import StreamId


def check(judged: Judged) -> Iterator[Problem]:
    for conflict in pairs.device_pairs(judged, reads=True):
        here = judged.seen_from(conflict.later, conflict.earlier)
        earlier, later = here.op(conflict.earlier), here.op(conflict.later)
        name = pairs.subject(here, conflict)
        writer = here.stream_at(earlier)
        staged = _is_staged(conflict, later)
        read = _handed_out(here, conflict, later) or f"is read {on(here, later)}"
        if staged:
            read = "is read by the host, to be copied,"
        # A call that returns nothing has no better place than the write.
        place = conflict.earlier if read == _HANDED_BACK else None
        if place is not None:
            here = judged.seen_from(place, conflict.later)
        notes = pairs.notes(here, conflict)
        remedy = Remedy(pairs.host_help(here, conflict)) if staged else pairs.order_help(here, conflict)
        yield Problem(
            later=conflict.later,
            earlier=conflict.earlier,
            buffer=conflict.buffer,
            message=(f"{name} {read} while {_stream(here, writer)} may still be writing it"),
            label=read.removeprefix("is ").rstrip(",") if place is None else "still running on return",
            help=remedy.help,
            statement=remedy.statement,
            notes=notes if place is None else notes[1:],
            doubts=conflict.doubts,
            primary=place,
        )


def _is_staged(conflict: Conflict, later: Op) -> bool:
    """Whether the host reads what is copied when it issues the copy: out of pageable memory."""
    match later:
        case Copy(host=HostEffect.STAGED, src=source):
            return source.buffer == conflict.buffer
        case _:
            return False


_HANDED_BACK = "is handed back"


def _handed_out(judged: Judged, conflict: Conflict, later: Op) -> str:
    """How a function hands something out; "" of what reads it by itself."""
    if later.role is Role.AFTER_YIELD:
        return "is yielded"
    if not is_return(later):
        return ""
    memory = judged.trace.buffers[conflict.buffer]
    given = memory.origin is Origin.ARGUMENT or memory.handed
    return _HANDED_BACK if given else "is returned"


def _stream(judged: Judged, stream: StreamId | None) -> str:
    return quoted(judged.stream_name(stream)) if stream is not None else "the device"


RULE = Rule(
    code="SL101",
    name="unordered-read",
    summary="a stream reads what another stream may still be writing",
    severity=Severity.ERROR,
    about=About.RACE,
    check=check,
    witness=ByValue(),
    doc="""\
## What it does
Reports device work on one stream that reads memory which another stream may still be writing: no
event, wait or synchronization orders the two.

## Why is this bad?
Streams run independently. Without an edge the reader sees old, new or mixed values, depending on
timing: no error is raised, and the result is wrong now and then.

## Example
```python
with torch.cuda.stream(side):
    y = x * 2
z = y + 1          # the current stream does not wait for `side`
```

Use instead:
```python
with torch.cuda.stream(side):
    y = x * 2
torch.cuda.current_stream().wait_stream(side)
z = y + 1
```

## Limits
A stream handed in by code that was not analyzed may be the current stream: then the finding is
only `possible`. A wait covers what was queued when its event was recorded, not what came later.

## Source
[CUDA semantics in PyTorch](https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams);
measured: two streams created non-blocking, no event, stale data at the first try.
""",
)
