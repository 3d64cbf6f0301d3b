"""SL303 callback-not-kept-alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.order.hb import Verdict
from streamlint.rules import lifetimes
from streamlint.rules.base import (
    Judged,
    Note,
    Problem,
    Rule,
    last_barrier,
    quoted,
    readable,
)
from streamlint.trace import (
    BufferId,
    Callback,
    CallbackEnd,
    Doubt,
    Free,
    FreeKind,
    HostSignal,
    LaneId,
    OpId,
)
from streamlint.witness import NoWitness

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(judged: Judged) -> Iterator[Problem]:
    queued: dict[BufferId, list[OpId]] = {}
    ends: dict[LaneId, OpId] = {}
    told: dict[LaneId, OpId] = {}
    for number, op in enumerate(judged.trace.ops):
        if isinstance(op, Callback) and op.code is not None:
            queued.setdefault(op.code, []).append(OpId(number))
        elif isinstance(op, CallbackEnd):
            ends[op.body] = OpId(number)
        elif isinstance(op, HostSignal):
            told[op.lane] = OpId(number)
    if not queued:
        return
    for number, free in lifetimes.frees(judged, FreeKind.DROPPED):
        for begin in queued.get(free.buffer, ()):
            callback = judged.op(begin)
            assert isinstance(callback, Callback)
            if begin < number and callback.body in ends:
                # Who waits for a flag that it sets has had it called: done.wait(), and then `done` goes.
                end = told.get(callback.body, ends[callback.body])
                problem = _judge(judged, begin, end, number, free)
                if problem is not None:
                    yield problem


def _judge(judged: Judged, begin: OpId, end: OpId, number: OpId, free: Free) -> Problem | None:
    ordering = judged.hb.ordered(end, number)
    callback = judged.op(begin)
    if ordering.verdict is Verdict.YES or not isinstance(callback, Callback):
        return None
    name = quoted(readable(judged.trace.buffers[free.buffer].name, "the callback object"))
    stream = quoted(judged.seen_from(begin).stream_name(callback.stream))
    notes = [Note(free.at.span, f"the last reference to {name} goes here")]
    doubts = ordering.doubts | free.doubts | callback.doubts
    if isinstance(judged.op(end), HostSignal) and judged.op(begin).at.call != free.at.call:
        # self.done.put(host): who has the object may wait for that before the next call.
        doubts |= {Doubt.SOME_PATHS}
    return Problem(
        later=number,
        earlier=end,
        primary=begin,
        buffer=free.buffer,
        message=f"nothing keeps {name} alive until {stream} has called it",
        label=f"queued on {stream}",
        help=(
            f"keep a reference to {name} until it has run: store it where it outlives the work on {stream}, "
            f"or synchronize {stream} before the reference goes"
        ),
        notes=(*notes, *last_barrier(judged, end, number)),
        doubts=doubts,
    )


RULE = Rule(
    code="SL303",
    name="callback-not-kept-alive",
    summary="a ctypes callback object that can be collected before it runs",
    severity=Severity.ERROR,
    check=check,
    witness=NoWitness("a collected callback object crashes the process, or not, as its memory is used again"),
    doc="""\
## What it does
Reports a `ctypes` callback object (`CFUNCTYPE(...)(function)`) that is handed to `cudaLaunchHostFunc`,
`cudaStreamAddCallback` or their driver forms, and whose last reference goes before the host knows that the
callback has run.

## Why is this bad?
cuda-python passes on the address of the object and keeps no reference, and neither does CUDA. When the
object is collected, its machine code is freed; the driver then jumps into freed memory. The process
crashes, or runs whatever was put there. Keeping the Python function is not enough: the object made by
`CFUNCTYPE` must live. (`ctypes.cast` leaves a reference cycle in its argument, so an object that was cast
goes when the garbage collector next runs, and the crash comes late and seldom.)

## Example
```python
def notify(stream, function):
    callback = HOST_FN(function)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    cudart.cudaLaunchHostFunc(stream, cudart.cudaHostFn_t(address), 0)
    # `callback` goes here; the stream calls it later
```

Use instead:
```python
def notify(self, stream, function):
    callback = HOST_FN(function)
    self.callbacks.append(callback)              # until the stream was synchronized
    address = ctypes.cast(callback, ctypes.c_void_p).value
    cudart.cudaLaunchHostFunc(stream, cudart.cudaHostFn_t(address), 0)
```

## Limits
CuPy, Numba and cuda.core keep what they are given until it has run. An object that a call received which is
not seen may be kept there: `possible`. What the callback gets as its data is not looked into. Libraries that
were loaded with `ctypes.CDLL` are not known.

## Source
[Callback functions](https://docs.python.org/3/library/ctypes.html#callback-functions): references to
`CFUNCTYPE` objects must be kept as long as they are used from C code; measured with CPython 3.11: after
`del`, an object whose `addressof` was taken is gone at once, one that was cast at the next collection;
[cudaLaunchHostFunc](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EXECUTION.html).
""",
)
