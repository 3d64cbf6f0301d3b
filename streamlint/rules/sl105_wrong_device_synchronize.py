"""SL105 wrong-device-synchronize."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules import pairs
from streamlint.rules.base import About, Judged, Note, Problem, Rule, stream_of
from streamlint.trace import Doubt, SyncDevice
from streamlint.witness import ByValue

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(judged: Judged) -> Iterator[Problem]:
    """Pairs with a device synchronize between them that waits for another device."""
    for conflict in judged.conflicts:
        stream = stream_of(judged.op(conflict.earlier))
        if stream is None:
            continue
        device = judged.trace.streams[stream].device
        between = judged.numbers(SyncDevice, first=conflict.earlier + 1, before=conflict.later)
        for number in reversed(between):
            op = judged.op(number)
            if not isinstance(op, SyncDevice) or op.device == device or Doubt.OBSERVED in op.doubts:
                continue
            name = pairs.subject(judged.seen_from(conflict.later, conflict.earlier), conflict)
            yield Problem(
                later=conflict.later,
                earlier=conflict.earlier,
                buffer=conflict.buffer,
                message=(
                    f"the synchronize waits for {_device(op.device)}, "
                    f"but {name} may still be in use on {_device(device)}"
                ),
                label="too early",
                help=(
                    "pass the device of the work, or synchronize its stream: "
                    "a device synchronize covers one device"
                ),
                notes=(
                    *pairs.notes(judged, conflict),
                    Note(op.at.span, f"waits for {_device(op.device)} only"),
                ),
                doubts=conflict.doubts,
                explains=frozenset({(conflict.earlier, conflict.later)}),
            )
            break


def _device(device: str) -> str:
    return "the current device" if device == "cur" else f"device {device}"


RULE = Rule(
    code="SL105",
    name="wrong-device-synchronize",
    summary="a device synchronize that does not cover the device where the work is",
    severity=Severity.ERROR,
    about=About.CAUSE,
    check=check,
    witness=ByValue(gpus=2),
    doc="""\
## What it does
Reports an unordered pair with a device synchronize between its two operations that waits for
another device than the one where the earlier operation runs.

## Why is this bad?
`cudaDeviceSynchronize()` and `torch.cuda.synchronize()` wait for the current (or named) device
only. Work on other devices goes on.

## Example
```python
out = model(x.to("cuda:1"))
host.copy_(out, non_blocking=True)
torch.cuda.synchronize()             # waits for device 0
return host.numpy().max()
```

Use instead:
```python
out = model(x.to("cuda:1"))
host.copy_(out, non_blocking=True)
torch.cuda.synchronize("cuda:1")
return host.numpy().max()
```

## Limits
A device that is known only by name is taken to be the current one.

## Source
[cudaDeviceSynchronize](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html).
""",
)
