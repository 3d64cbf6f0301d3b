"""SL505 work-outside-capture."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules.base import Judged, Note, Problem, Rule, quoted, stream_of, what
from streamlint.rules.capture_regions import captures
from streamlint.witness import ByValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.source import Span


def check(judged: Judged) -> Iterator[Problem]:
    for capture in captures(judged):
        begin = judged.op(capture.begin)
        for elsewhere in capture.elsewhere:
            work = judged.op(elsewhere.op)
            stream = stream_of(work)
            if any(stream_of(judged.op(wait.record)) == stream for wait in capture.outside_waits):
                continue
            here = judged.seen_from(elsewhere.op)
            captured = quoted(here.stream_name(capture.stream))
            side = quoted(here.stream_name(stream)) if stream is not None else "another stream"
            yield Problem(
                later=elsewhere.op,
                message=f"{what(work)} on {side} runs now: {captured} is captured, and {side} is not",
                label="not part of the graph",
                help=f"let {side} wait for the capturing stream first and join it, or use {captured}",
                notes=(Note(begin.at.span, "the capture begins here"),),
                doubts=elsewhere.doubts,
                settled_by=partial(_captured_on, work.at.span),
            )


def _captured_on(work: Span, other: Judged) -> bool:
    return any(work in capture.captured for capture in captures(other))


RULE = Rule(
    code="SL505",
    name="work-outside-capture",
    summary="work between the begin and the end of a capture that is not captured",
    severity=Severity.ERROR,
    check=check,
    witness=ByValue(names_earlier=False),
    doc="""\
## What it does
Reports work that is queued while a stream is captured, on a stream that is not part of the capture: of
another device, or one that did not wait for an event of the capture.

## Why is this bad?
It runs once, at once, and is missing from each launch of the graph. On the legacy default stream it makes
the capture fail.

## Example
```python
with torch.cuda.graph(graph):
    with torch.cuda.stream(side):
        x.add_(1)
```

Use instead:
```python
with torch.cuda.graph(graph):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.add_(1)
    torch.cuda.current_stream().wait_stream(side)
```

## Limits
A stream that unseen code received, or that may be the captured one, is `possible`. Work that is meant to run
only once belongs in front of the capture. What the capture waits for is SL503.

## Source
[Stream capture](https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/cuda-graphs.html): what
is launched into the capturing stream, and into streams that join it, is captured.
""",
)
