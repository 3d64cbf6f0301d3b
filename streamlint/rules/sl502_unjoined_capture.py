"""SL502 unjoined-capture."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.frozen import replace
from streamlint.rules.base import (
    Judged,
    Note,
    Problem,
    Rule,
    quoted,
    readable,
    stream_of,
    what,
)
from streamlint.rules.capture_regions import captures
from streamlint.trace import Launch
from streamlint.witness import ByError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.source import Span
    from streamlint.trace import Op


def check(judged: Judged) -> Iterator[Problem]:
    for capture in captures(judged):
        for left in capture.unjoined:
            work = judged.op(left.op)
            stream = stream_of(work)
            side = (
                quoted(judged.seen_from(left.op).stream_name(stream))
                if stream is not None
                else "a side stream"
            )
            yield Problem(
                later=left.op,
                message=f"{_named(work)} on {side} is not joined before the capture ends",
                label="still unjoined at the end of the capture",
                help=f"let the capturing stream wait for {side} before the capture ends",
                notes=(
                    Note(judged.op(left.fork).at.span, "the stream joins the capture here"),
                    Note(judged.op(left.end).at.span, "the capture ends here"),
                ),
                doubts=left.doubts | work.doubts,
                settled_by=partial(_joined_on, work.at.span),
            )


def _joined_on(work: Span, other: Judged) -> bool:
    return any(work in capture.joined for capture in captures(other))


def _named(work: Op) -> str:
    match work:
        case Launch(name=name):
            return what(replace(work, name=readable(name, "work").replace("`", "")))
        case _:
            return what(work)


RULE = Rule(
    code="SL502",
    name="unjoined-capture",
    summary="work forked in a capture and not joined before its end",
    severity=Severity.ERROR,
    check=check,
    witness=ByError(frozenset({904})),
    doc="""\
## What it does
Reports captured work on a side stream that the capturing stream does not wait for, directly or through
other streams, before the capture ends.

## Why is this bad?
A stream that waits for an event of the capture becomes part of it. Every branch must come back to the
stream that began the capture; otherwise ending it fails with error 904 and there is no graph.

## Example
```python
with torch.cuda.graph(graph):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        b = right(x)
    a = left(x)
```

Use instead:
```python
with torch.cuda.graph(graph):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        b = right(x)
    a = left(x)
    torch.cuda.current_stream().wait_stream(side)
```

## Limits
A stream that was forked but given no work needs no join. Calls that cannot be followed and that received
one of the streams may join it: what only they could join is `possible`.

## Source
[Cross-stream dependencies](https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/cuda-graphs.html);
measured: error 904 with work on the side stream, success without.
""",
)
