"""SL301 cuda-call-in-host-callback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules.base import Judged, Note, Problem, Rule
from streamlint.trace import (
    Alloc,
    Barrier,
    Callback,
    CallbackEnd,
    Copy,
    CudaCall,
    Doubt,
    Evidence,
    Free,
    HostAccess,
    HostSignal,
    HostWait,
    Join,
    KeepAlive,
    LaneId,
    Launch,
    Op,
    OpId,
    Record,
    Space,
    Spawn,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)
from streamlint.witness import ByError

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(judged: Judged) -> Iterator[Problem]:
    bodies: dict[LaneId, Callback] = {op.body: op for op in judged.trace.ops if isinstance(op, Callback)}
    for number, op in enumerate(judged.trace.ops):
        callback = bodies.get(op.lane)
        if callback is None or not _is_cuda_call(judged, op):
            continue
        yield Problem(
            later=OpId(number),
            message=f"{_called(op)} is a CUDA call inside a host callback",
            label="not permitted in a callback",
            help=(
                "let the callback only signal (set a flag, an event of `threading`), "
                "and make CUDA calls from an ordinary thread"
            ),
            notes=(
                Note(callback.at.span, "the callback is queued here"),
                *(
                    Note(span, "reached through this call")
                    for span in op.at.calls[len(callback.at.calls) + 1 :]
                ),
            ),
            doubts=op.doubts | _guessed(judged, op),
            mended_at=(callback.at.span, *callback.at.calls),
        )


def _called(op: Op) -> str:
    """The call by its name; ops that have none of their own are named by what they do."""
    match op:
        case Alloc():
            return "the allocation"
        case Free():
            return f"`{op.name}`" if op.name.startswith("cu") else "the free"
        case Copy(name="copy") | Copy(name="copy by assignment") | Launch(name="copy by assignment"):
            return "the copy"
        case Record():
            return "the record of an event"
        case (
            Launch() | Copy() | Wait() | SyncEvent() | SyncStream() | SyncDevice() | KeepAlive() | CudaCall()
        ):
            return f"`{op.name}`"
        case _:
            return "this"


def _is_cuda_call(judged: Judged, op: Op) -> bool:
    match op:
        case HostAccess() | Barrier() | Callback() | CallbackEnd():
            return False
        case Spawn() | Join() | HostWait() | HostSignal():
            return False
        case Alloc(buffer=buffer):
            # What code that is not seen gives, ``codec.decompress(row)``, may be on the host.
            made = judged.trace.buffers[buffer]
            return made.space is not Space.PAGEABLE and made.residence is not Evidence.ASSUMED
        case SyncDevice(doubts=doubts):
            return not doubts
        case _:
            return True


def _guessed(judged: Judged, op: Op) -> frozenset[Doubt]:
    """Whether only a guess says that there is work: ``pool.apply_async(save, args)`` of unknown ``args``."""
    if not isinstance(op, Launch) or Doubt.OPAQUE not in op.doubts:
        return frozenset()
    used = (judged.trace.buffers[access.buffer] for access in op.accesses)
    shown = any(one.kind is not Evidence.ASSUMED and one.space is not Space.UNKNOWN for one in used)
    return frozenset() if shown else frozenset({Doubt.GUESSED})


RULE = Rule(
    code="SL301",
    name="cuda-call-in-host-callback",
    summary="a CUDA call inside a host callback, directly or through what it calls",
    severity=Severity.ERROR,
    check=check,
    witness=ByError(in_callback=True),
    doc="""\
## What it does
Reports CUDA calls (copies, allocations, launches, synchronizations, queries) made from a host
function queued with `cudaLaunchHostFunc`, `cudaStreamAddCallback` and their wrappers, also through
helpers, closures, partials and bound methods.

## Why is this bad?
A host function must not call CUDA. The runtime refuses with `cudaErrorNotPermitted`, which Python
code in a callback rarely sees, so the work silently does not happen; it may also deadlock.

## Example
```python
def on_done(_):
    cudart.cudaMemcpyAsync(host, device, n, kind, stream)   # refused: error 800

cudart.cudaLaunchHostFunc(stream, on_done, None)
```

Use instead:
```python
def on_done(_):
    finished.set()                                          # a threading.Event

cudart.cudaMemcpyAsync(host, device, n, kind, stream)
cudart.cudaLaunchHostFunc(stream, on_done, None)
```

## Limits
Callbacks built from values that cannot be followed are not looked into.

## Source
[cudaLaunchHostFunc](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EXECUTION.html);
measured: every runtime call tried returned error 800 but for event queries and the error query.
""",
)
