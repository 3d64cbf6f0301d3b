"""SL508 capture-meets-thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules.base import Judged, Note, Problem, Rule, quoted, what
from streamlint.rules.capture_regions import Capture, captures
from streamlint.rules.host_threads import has_twins, held_at, may_know
from streamlint.trace import (
    MAIN_LANE,
    Alloc,
    AllocKind,
    CaptureMode,
    Copy,
    CudaCall,
    Doubt,
    HostEffect,
    LaneId,
    Op,
    OpId,
    Role,
    Spawn,
    SyncDevice,
    SyncEvent,
    SyncStream,
)
from streamlint.witness import NoWitness

if TYPE_CHECKING:
    from collections.abc import Iterator

_CALLS = (SyncDevice, SyncStream, SyncEvent, CudaCall, Alloc, Copy)


def check(judged: Judged) -> Iterator[Problem]:
    starts = _threads(judged)
    if not starts and not judged.trace.run_by_several:
        return
    for capture in captures(judged):
        met = next(_met(judged, capture, starts), None)
        if met is not None:
            yield _problem(judged, capture, met, starts)


def _threads(judged: Judged) -> dict[LaneId, OpId]:
    """Where the threads of this process were started."""
    spawned = ((number, judged.op(number)) for number in judged.numbers(Spawn))
    return {op.child: number for number, op in spawned if isinstance(op, Spawn) and not op.is_process}


def _met(judged: Judged, capture: Capture, starts: dict[LaneId, OpId]) -> Iterator[OpId]:
    """Calls of other threads that the capture forbids, and that may come while it goes on.

    Those of the device first: no mode permits them.
    """
    lane = judged.op(capture.begin).lane
    if capture.end is None or (lane != MAIN_LANE and lane not in starts):
        return
    locked = held_at(judged, capture.begin)
    twins = has_twins(judged, lane)
    numbers = judged.numbers(*_CALLS)
    for number in sorted(numbers, key=lambda one: (not isinstance(judged.op(one), SyncDevice), one)):
        op = judged.op(number)
        if op.lane == lane:
            same_call = op.at.call == judged.op(capture.begin).at.call
            apart = twins and same_call and not capture.begin < number < capture.end
        else:
            runs = op.lane == MAIN_LANE or op.lane in starts
            apart = runs and _may_meet(judged, capture, number)
        forbidden = apart and _is_forbidden(judged, capture, op)
        if forbidden and locked.isdisjoint(held_at(judged, number)):
            yield number


def _is_forbidden(judged: Judged, capture: Capture, op: Op) -> bool:
    """Whether no thread may make the call while the capture goes on."""
    if op.role is not Role.CODE:
        return False
    every = capture.mode is CaptureMode.GLOBAL
    match op:
        case SyncDevice():
            same = op.device == judged.trace.streams[capture.stream].device
            return same and (every or Doubt.OBSERVED not in op.doubts)
        case SyncStream() | SyncEvent():
            return every
        case CudaCall():
            return every and (op.stream is not None or op.event is not None)
        case Alloc():
            return every and op.stream is None and op.kind is AllocKind.CALL
        case Copy():
            return every and op.host is HostEffect.BLOCKS
        case _:
            return False


def _may_meet(judged: Judged, capture: Capture, number: OpId) -> bool:
    assert capture.end is not None
    if number < capture.begin:
        return not may_know(judged, number, capture.begin)
    return not may_know(judged, capture.end, number)


def _problem(judged: Judged, capture: Capture, met: OpId, starts: dict[LaneId, OpId]) -> Problem:
    begin, op = judged.op(capture.begin), judged.op(met)
    thread = op.lane if op.lane in starts else begin.lane
    # Which thread runs when is not known.
    doubts = begin.doubts | op.doubts | {Doubt.PATH}
    start = judged.op(starts[thread]) if thread in starts else None
    calls = {begin.at.call, op.at.call} | ({start.at.call} if start is not None else set())
    if len(calls) > 1:
        # Whoever calls start() and capture() may wait in between.
        doubts |= {Doubt.CALLS, Doubt.SOME_PATHS}
    if capture.mode is not CaptureMode.GLOBAL and judged.trace.assumed_device:
        doubts |= {Doubt.DEVICE}
    apart = "hold one lock around the capture and the call, or capture before the thread starts"
    by_mode = "" if isinstance(op, SyncDevice) else "capture in the mode `thread_local`, "
    return Problem(
        later=capture.begin,
        message=f"another thread may call {_called(op)} while this is captured",
        label="does not permit that, in this mode" if by_mode else "does not permit that",
        help=by_mode + apart,
        notes=(
            Note(op.at.span, f"{_called(op)} is called here, by another thread"),
            *((Note(start.at.span, "the thread is started here"),) if start is not None else ()),
        ),
        doubts=doubts,
    )


def _called(op: Op) -> str:
    match op:
        case SyncStream() | SyncEvent() | SyncDevice() | CudaCall() | Alloc():
            return f"the {op.name}" if " " in op.name else quoted(op.name)
        case _:
            return f"a blocking {what(op)}"


RULE = Rule(
    code="SL508",
    name="capture-meets-thread",
    summary="a capture while another thread makes calls that it forbids",
    severity=Severity.ERROR,
    check=check,
    witness=NoWitness("whether the call of the other thread comes during the capture is up to the schedule"),
    doc="""\
## What it does
Reports the begin of a stream capture in a thread while another thread of the program, which was started
and not waited for, makes a call that the capture forbids.

| mode of the capture | what other threads may not do meanwhile |
| --- | --- |
| global (the default of PyTorch and of the CUDA runtime) | what is unsafe in a capture: wait for streams \
and events, ask for completion, copy and block, allocate and free |
| thread-local, relaxed | wait for the device (`torch.cuda.synchronize()`), of which the captured stream is |

## Why is this bad?
The call of the other thread fails, or the capture does, and with it the process, now and then: it depends
on which thread runs when. With one request at a time, as in tests, the two never meet.

## Example
```python
threading.Thread(target=upload_forever, daemon=True).start()   # queries events
with torch.cuda.graph(graph):                                   # no thread may do that
    y = model(x)
```

Use instead:
```python
with torch.cuda.graph(graph, capture_error_mode="thread_local"):
    y = model(x)
```

## Limits
Threads are those that the code in sight starts (`Thread`, `submit`). Nothing is reported where both hold
one lock, or where either thread may have waited for the other one. Threads of libraries, such as the one
that pins the batches of a `DataLoader`, and allocations of caching allocators, which are unsafe only now and
then, are not looked at. Where the caller decides whether the thread runs during the capture the finding is
`possible`.

## Source
[Modes of a capture](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html)
(`cudaThreadExchangeStreamCaptureMode`): in global mode, for all threads;
[torch.cuda.graph](https://docs.pytorch.org/docs/stable/generated/torch.cuda.graph.html);
[prohibited operations](https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/cuda-graphs.html):
a device may not be synchronized while one of its streams is captured. Which calls are refused was measured
in one thread.
""",
)
