"""SL106 stream-of-other-device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules.base import (
    About,
    Judged,
    Note,
    Problem,
    Rule,
    quoted,
    what,
)
from streamlint.trace import (
    CURRENT_DEVICE,
    DeviceId,
    Doubt,
    Launch,
    OpId,
    Record,
)
from streamlint.witness import ByError

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(judged: Judged) -> Iterator[Problem]:
    """Kernels and records on a stream of another device than the one that they belong to."""
    for number, op in enumerate(judged.trace.ops):
        match op:
            case Launch():
                found = _launch(judged, OpId(number), op)
            case Record():
                found = _record(judged, OpId(number), op)
            case _:
                continue
        if found is not None:
            yield found


def _launch(judged: Judged, number: OpId, op: Launch) -> Problem | None:
    """A default stream is always that of the current device."""
    stream = judged.trace.streams[op.stream]
    doubts = None if stream.is_default else _apart(stream.made_on, op.issued_on)
    if doubts is None:
        return None
    name = quoted(judged.seen_from(number).stream_name(op.stream))
    return Problem(
        later=number,
        message=(
            f"{what(op)} uses {name}, a stream of {_device(stream.made_on)}, "
            f"while {_device(op.issued_on)} is current"
        ),
        label=f"launched on {_device(op.issued_on)}",
        help=(
            f"make {_device(stream.made_on)} current for the launch, "
            f"or give it a stream of {_device(op.issued_on)}"
        ),
        notes=(Note(stream.span, f"made on {_device(stream.made_on)} here"),) if stream.span else (),
        doubts=op.doubts - {Doubt.OPAQUE} | doubts,
        explains=_races_of(judged, number),
    )


def _races_of(judged: Judged, launch: OpId) -> frozenset[tuple[OpId, OpId]]:
    """A launch that fails touches nothing."""
    pairs = ((conflict.earlier, conflict.later) for conflict in judged.conflicts)
    return frozenset(pair for pair in pairs if launch in pair)


def _record(judged: Judged, number: OpId, op: Record) -> Problem | None:
    event, stream = judged.trace.events[op.event], judged.trace.streams[op.stream]
    doubts = _apart(event.made_on, op.issued_on)
    if doubts is None or event.span is None:
        return None
    judged = judged.seen_from(number)
    name, on_stream = judged.event_name(event.id), quoted(judged.stream_name(op.stream))
    return Problem(
        later=number,
        message=(
            f"{name} belongs to {_device(event.made_on)} and is recorded on "
            f"{on_stream}, a stream of {_device(op.issued_on)}"
        ),
        label=f"recorded on {_device(op.issued_on)}",
        help=f"make {name} on {_device(op.issued_on)}: an event is recorded on its own device only",
        notes=tuple(
            Note(span, f"{thing} here")
            for span, thing in ((event.span, f"{name} is made"), (stream.span, f"{on_stream} is made"))
            if span is not None
        ),
        doubts=op.doubts | doubts,
    )


def _apart(first: DeviceId | None, second: DeviceId | None) -> frozenset[Doubt] | None:
    """Under which doubts two devices differ; None if they may well be one."""
    if first is None or second is None or first == second:
        return None
    if CURRENT_DEVICE not in (first, second):
        return frozenset()
    # The device current at entry is mostly device 0, and then differs from device 1.
    return None if "0" in (first, second) else frozenset({Doubt.DEVICE})


def _device(device: DeviceId | None) -> str:
    return "the device current before" if device in (None, CURRENT_DEVICE) else f"device {device}"


RULE = Rule(
    code="SL106",
    name="stream-of-other-device",
    summary="a kernel is launched, or an event recorded, on a stream of another device",
    severity=Severity.ERROR,
    about=About.ORDER,
    check=check,
    # 700 (illegal address): cuda.core and Numba launch all the same.
    witness=ByError(codes=frozenset({400, 700}), gpus=2),
    doc="""\
## What it does
Reports a kernel that is launched on a stream of another device than the current one, and an event that
is recorded on a stream of another device than its own.

## Why is this bad?
A stream belongs to the device that was current when it was made. A kernel launch on a stream of another
device fails with "invalid resource handle", and so does the record of an event. (A copy is accepted,
and so is a *wait* for an event of another device.) On a machine with one GPU the code is never run.

## Example
```python
stream = cupy.cuda.Stream()                      # of device 0
with cupy.cuda.Device(1):
    kernel((blocks,), (256,), (x, n), stream=stream)
```

Use instead:
```python
with cupy.cuda.Device(1):
    stream = cupy.cuda.Stream()
    kernel((blocks,), (256,), (x, n), stream=stream)
```

| library | kernels | events |
| --- | --- | --- |
| PyTorch | `with torch.cuda.stream(s)` makes the device of `s` current too | belong to the device where \
they are recorded first |
| CuPy, Numba, the CUDA runtime | on the current device | belong to the device current when they are made |
| cuda.core | on the current device | `stream.record()` makes one for its stream |

## Limits
Devices must be named by number. Where one of the two is the device that was current from the start, which
may be any, the finding is only `possible`. Contexts of the driver API are not followed. CuPy itself
refuses to enter a stream of another device.

## Source
[Multi-device stream and event behavior](https://docs.nvidia.com/cuda/cuda-c-programming-guide/#stream-and-event-behavior);
measured: both calls fail with error 400, a copy does not.
""",
)
