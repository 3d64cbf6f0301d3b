"""SL404 used-after-destroy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint.finding import Severity
from streamlint.rules.base import (
    Judged,
    Note,
    Problem,
    Rule,
    quoted,
)
from streamlint.trace import (
    Alloc,
    Barrier,
    BeginCapture,
    Callback,
    CallbackEnd,
    Copy,
    CudaCall,
    DestroyEvent,
    DestroyStream,
    EndCapture,
    EventId,
    Free,
    HandOff,
    HostAccess,
    HostSignal,
    HostWait,
    Join,
    KeepAlive,
    Launch,
    Op,
    OpId,
    Record,
    Spawn,
    StreamId,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)
from streamlint.witness import ByError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    Thing: TypeAlias = "tuple[str, StreamId | EventId]"


def check(judged: Judged) -> Iterator[Problem]:
    """The first use of each destroyed stream or event, in the call from outside that destroyed it.

    ``close()`` and then ``run()`` is the caller's mistake, and not in sight.
    """
    gone: dict[Thing, Op] = {}
    for number, op in enumerate(judged.trace.ops):
        for thing in _uses(op):
            destroyed = gone.get(thing)
            if destroyed is not None and (destroyed.at.call, destroyed.lane) == (op.at.call, op.lane):
                del gone[thing]
                yield _problem(judged, OpId(number), thing, destroyed)
        if isinstance(op, (DestroyStream, DestroyEvent)):
            gone[_destroyed(op)] = op


def _destroyed(op: DestroyStream | DestroyEvent) -> Thing:
    return ("stream", op.stream) if isinstance(op, DestroyStream) else ("event", op.event)


def _uses(op: Op) -> tuple[Thing, ...]:
    """The streams and events that an op hands to the library."""
    match op:
        case (
            Launch(stream=stream)
            | Copy(stream=stream)
            | SyncStream(stream=stream)
            | Callback(stream=stream)
            | BeginCapture(stream=stream)
            | EndCapture(stream=stream)
            | DestroyStream(stream=stream)
        ):
            return (("stream", stream),)
        case Record(stream=stream, event=event) | Wait(stream=stream, event=event):
            return (("stream", stream), ("event", event))
        case SyncEvent(event=event) | DestroyEvent(event=event):
            return (("event", event),)
        case Alloc(stream=stream) | Free(stream=stream) if stream is not None:
            return (("stream", stream),)
        case (
            Alloc()
            | Free()
            | HostAccess()
            | SyncDevice()
            | Barrier()
            | KeepAlive()
            | HandOff()
            | CallbackEnd()
            | Spawn()
            | HostWait()
            | HostSignal()
            | Join()
            | CudaCall()
        ):
            return ()
        case _:
            assert_never(op)


def _problem(judged: Judged, number: OpId, thing: Thing, destroyed: Op) -> Problem:
    name = _named(judged.seen_from(number), thing)
    again = isinstance(judged.op(number), (DestroyStream, DestroyEvent))
    verb = "destroyed again" if again else "used"
    return Problem(
        later=number,
        message=f"{name} is {verb} after it was destroyed",
        label=f"{verb} here",
        help=f"destroy {name} after its last use; work already queued is not affected by that",
        notes=(Note(destroyed.at.span, "destroyed here"),),
        doubts=judged.op(number).doubts | destroyed.doubts,
    )


def _named(judged: Judged, thing: Thing) -> str:
    match thing:
        case ("stream", number):
            return quoted(judged.stream_name(StreamId(number)))
        case (_, number):
            return judged.event_name(EventId(number))


RULE = Rule(
    code="SL404",
    name="used-after-destroy",
    summary="a destroyed stream or event is used",
    severity=Severity.ERROR,
    check=check,
    witness=ByError(frozenset({1, 4, 201, 400, 709}), crash=True),
    doc="""\
## What it does
Reports streams and events that are used, or destroyed again, after `cudaStreamDestroy`,
`cudaEventDestroy` or `close()`.

## Why is this bad?
The handle may be invalid, which is an error or a crash, or it may already stand for another stream or
event that the library made in the meantime.

## Example
```python
check(cudart.cudaEventRecord(done, a))
check(cudart.cudaEventDestroy(done))
check(cudart.cudaStreamWaitEvent(b, done, 0))
```

Use instead:
```python
check(cudart.cudaEventRecord(done, a))
check(cudart.cudaStreamWaitEvent(b, done, 0))
check(cudart.cudaEventDestroy(done))    # the wait already issued holds
```

## Limits
Only within one call from outside: a method called after `close()` is the caller's mistake, which is not
in sight.

## Source
[cudaStreamDestroy](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html);
measured: destroying a stream or an event with work pending returns at once, and waits already issued
hold.
""",
)
