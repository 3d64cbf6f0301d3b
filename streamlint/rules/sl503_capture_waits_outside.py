"""SL503 capture-waits-outside."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules.base import (
    Judged,
    Note,
    Problem,
    Rule,
    quoted,
)
from streamlint.rules.capture_regions import captures
from streamlint.trace import Record, Wait
from streamlint.witness import ByError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.source import Span


def check(judged: Judged) -> Iterator[Problem]:
    for capture in captures(judged):
        begin = judged.op(capture.begin)
        for outside in capture.outside_waits:
            wait, record = judged.op(outside.op), judged.op(outside.record)
            assert isinstance(wait, Wait)
            assert isinstance(record, Record)
            where, captured = (
                quoted(judged.seen_from(outside.op).stream_name(s)) for s in (record.stream, capture.stream)
            )
            yield Problem(
                later=outside.op,
                message=f"the captured wait is for {_awaited(judged, wait)} on {where}, outside the capture",
                label="waits for what is not part of the capture",
                help=(
                    f"order earlier work before the capture begins (synchronize, or make {captured} wait), "
                    f"or make {where} wait for {captured} first, inside of the capture"
                ),
                notes=(
                    Note(record.at.span, "recorded here, outside the capture"),
                    Note(begin.at.span, "the capture begins here"),
                ),
                doubts=outside.doubts,
                settled_by=partial(_waits_inside_on, wait.at.span),
            )


def _awaited(judged: Judged, wait: Wait) -> str:
    event = judged.trace.events[wait.event]
    if event.implied:
        return "work"
    return f"{judged.event_name(event.id)}, recorded"


def _waits_inside_on(wait: Span, other: Judged) -> bool:
    return any(wait in capture.inner_waits for capture in captures(other))


RULE = Rule(
    code="SL503",
    name="capture-waits-outside",
    summary="a capture waits on an event recorded outside it",
    severity=Severity.ERROR,
    check=check,
    witness=ByError(frozenset({905})),
    doc="""\
## What it does
Reports a wait of a capturing stream on an event whose record is not part of the capture: made before it
began, or on a stream that does not take part in it.

## Why is this bad?
A graph cannot depend on work that is not in it. The wait fails with error 905 and the capture is lost.

## Example
```python
with torch.cuda.stream(side):
    weights = load()
    ready.record()
with torch.cuda.graph(graph):
    torch.cuda.current_stream().wait_event(ready)   # recorded outside: error 905
    y = x @ weights
```

Use instead:
```python
with torch.cuda.stream(side):
    weights = load()
    ready.record()
ready.synchronize()
with torch.cuda.graph(graph):
    y = x @ weights
```

## Limits
Events made with `external=True`, and waits with `cudaEventWaitExternal`, are nodes of the graph and not
reported. A wait on an event that was never recorded is accepted by CUDA and does nothing: see SL103.

## Source
[Cross-stream dependencies](https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/cuda-graphs.html);
measured: error 905 in every mode, and success with the external flag.
""",
)
