"""SL501 sync-in-capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules.base import Judged, Note, Problem, Rule, quoted
from streamlint.rules.capture_regions import captures
from streamlint.trace import (
    Alloc,
    CudaCall,
    Op,
    Role,
    SyncDevice,
    SyncEvent,
    SyncStream,
)
from streamlint.witness import ByError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.trace import StreamId


def check(judged: Judged) -> Iterator[Problem]:
    for capture in captures(judged):
        begin = judged.op(capture.begin)
        for refused in capture.refused:
            op = judged.op(refused.op)
            if op.role is not Role.CODE:
                # The constructor began a capture: what is complete at the first call is not in this code.
                continue
            yield Problem(
                later=refused.op,
                message=f"{_called(op)} {_does(op)} while {_whose(judged, capture.stream)} is being captured",
                label="not permitted during a capture",
                help=_help(op),
                notes=(Note(begin.at.span, "the capture begins here"),),
                doubts=refused.doubts,
            )


def _whose(judged: Judged, stream: StreamId) -> str:
    name = judged.stream_name(stream)
    return "a stream" if name == "the capture stream" else quoted(name)


def _called(op: Op) -> str:
    match op:
        case SyncStream(name="to cpu" | "to device"):
            return f"the copy {op.name}"
        case SyncStream() | SyncEvent() | SyncDevice() | CudaCall() | Alloc():
            return f"the {op.name}" if " " in op.name else quoted(op.name)
        case _:
            return "this call"


def _does(op: Op) -> str:
    match op:
        case CudaCall():
            return "asks for completion"
        case Alloc():
            return "allocates"
        case SyncDevice(name=name) if "Free" in name or "free" in name:
            return "frees memory"
        case _:
            return "waits for the device"


def _help(op: Op) -> str:
    if isinstance(op, (Alloc, SyncDevice)):
        return "move the call out of the captured region: before the capture, or after it has ended"
    return (
        "keep the values on the device inside the captured region, and synchronize or read them "
        "after the graph has been launched"
    )


RULE = Rule(
    code="SL501",
    name="sync-in-capture",
    summary="a synchronization, query, implicit synchronization or unsafe call during a stream capture",
    severity=Severity.ERROR,
    check=check,
    witness=ByError(frozenset({900, 901, 906, 907})),
    doc="""\
## What it does
Reports calls inside a captured region, also in helpers called from there, that wait for the device or
ask whether it is done: stream, event and device synchronizations, completion queries, `.item()`,
`float(t)`, `.cpu()`, `.get()`, blocking copies, operators whose result size depends on the data
(`nonzero`), and driver allocations and frees.

## Why is this bad?
Captured work does not run: there is nothing to wait for. CUDA refuses the call with error 900 (907 for
an event recorded in the capture), the capture is invalid from there on, and ending it fails with error
901, often far from the call that caused it.

## Example
```python
with torch.cuda.graph(graph):
    y = model(static_x)
    if y.abs().max().item() > limit:   # refused: waits for the capturing stream
        y.clamp_(-limit, limit)
```

Use instead:
```python
with torch.cuda.graph(graph):
    y = model(static_x)
    y.clamp_(-limit, limit)
```

## Limits
In relaxed mode (the default of CuPy and cuda.core) allocations, and synchronizations of streams and
events outside the capture, are permitted and not reported; an error mode that cannot be read counts as
relaxed. Code under `if not torch.cuda.is_current_stream_capturing()` is not part of a capture. Use of
the legacy default stream during a capture is not looked into.

## Source
[Prohibited and unhandled operations](https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/cuda-graphs.html);
measured: error 900 in every mode for the capturing stream and the device, 907 for its events, 900 for
all other synchronizations, allocations and frees unless the mode is relaxed.
""",
)
