"""SL601 handoff-without-stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules import handed_over, pairs
from streamlint.rules.base import (
    About,
    Judged,
    Note,
    Problem,
    Remedy,
    Rule,
    on,
    quoted,
    stream_of,
)
from streamlint.trace import Mode
from streamlint.witness import ByValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.order.conflicts import Conflict
    from streamlint.trace import HandOff


def check(judged: Judged) -> Iterator[Problem]:
    """Pairs of two libraries on memory that was handed over without an order of their streams."""
    for reads in (True, False):
        for conflict in pairs.device_pairs(judged, reads=reads):
            handoff = handed_over.without_order(judged, conflict)
            both = handed_over.libraries(judged, conflict)
            if handoff is None or both is None:
                continue
            here = judged.seen_from(conflict.later, conflict.earlier)
            remedy = _remedy(here, conflict, handoff, both)
            yield Problem(
                later=conflict.later,
                earlier=conflict.earlier,
                buffer=conflict.buffer,
                message=_message(here, conflict, both),
                label=f"used by {both[1]}",
                help=remedy.help,
                statement=remedy.statement,
                notes=(
                    *pairs.notes(here, conflict),
                    _note(handoff),
                ),
                doubts=conflict.doubts,
                explains=frozenset({(conflict.earlier, conflict.later)}),
            )


def _message(judged: Judged, conflict: Conflict, both: tuple[str, str]) -> str:
    giver = stream_of(judged.op(conflict.earlier))
    where = quoted(judged.stream_name(giver)) if giver is not None else "the device"
    verb = {Mode.READ: "reads", Mode.WRITE: "writes"}.get(conflict.later_access.mode, "uses")
    doing = "writing" if conflict.earlier_access.mode.writes else "reading"
    return (
        f"{both[1]} {verb} {pairs.subject(judged, conflict)} {on(judged, judged.op(conflict.later))} "
        f"while {both[0]} may still be {doing} it on {where}"
    )


def _note(handoff: HandOff) -> Note:
    if handoff.taker:
        return Note(
            handoff.at.span, f"{handoff.taker} takes it here (`{handoff.name}`), which orders no streams"
        )
    return Note(handoff.at.span, f"its address is taken here (`{handoff.name}`), which orders no streams")


_BY_CAPSULE = frozenset({"PyTorch", "CuPy"})
"""Libraries whose ``from_dlpack`` orders the streams that are current in both."""


def _remedy(judged: Judged, conflict: Conflict, handoff: HandOff, both: tuple[str, str]) -> Remedy:
    wait = pairs.order_help(judged, conflict)
    other = f"use one stream in both libraries, or {wait.help}"
    if handoff.taker in _BY_CAPSULE and set(both) == _BY_CAPSULE:
        other = f"hand it over with `from_dlpack`, which orders the current streams of both; or {other}"
    return Remedy(other, wait.statement)


RULE = Rule(
    code="SL601",
    name="handoff-without-stream",
    summary="two libraries use the same memory on streams that the hand-off did not order",
    severity=Severity.ERROR,
    about=About.CAUSE,
    check=check,
    witness=ByValue(),
    doc="""\
## What it does
Reports memory that one library uses while another may still be working on it, where it was handed over
by a way that orders no streams: the CUDA array interface, a DLPack capsule made beforehand, or an
address.

## Why is this bad?
Each library has a current stream of its own. Entering a stream in one of them changes nothing in the
other, so work that follows in the source may run before, or during, the work that it depends on.

| hand-off | orders the streams |
| --- | --- |
| `torch.from_dlpack(a)`, `cupy.from_dlpack(x)` | yes, the current streams of both |
| `StridedMemoryView(x, stream_ptr)` of cuda.core | yes, unless `stream_ptr` is -1 or None |
| `cupy.asarray(a)`, `numba.cuda.as_cuda_array(a)` | only if the array names a stream: CuPy's do, Numba's \
if made on one, PyTorch's do not |
| `torch.as_tensor(a)` | no |
| `wp.from_torch(t)`, `wp.to_torch(a)` of Warp | no |
| a capsule from `to_dlpack`, `x.data_ptr()`, `a.data.ptr`, `Buffer.from_handle` | no |

## Example
```python
with cupy.cuda.Stream(non_blocking=True):
    a *= 2
x = torch.as_tensor(a, device="cuda")     # by the array interface
y = x + 1
```

Use instead:
```python
with cupy.cuda.Stream(non_blocking=True):
    a *= 2
    x = torch.from_dlpack(a)              # PyTorch's current stream waits for CuPy's
y = x + 1
```

or one stream in both: `with torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):`.

## Limits
Where no stream was entered, the current and default streams of PyTorch, CuPy and Numba are one, and
nothing is reported. A PyTorch tensor that is passed to a Numba kernel as it is may be ordered by DLPack:
then the finding is only `possible`. A library that is not modelled and gets an address is SL101.

## Source
[CUDA array interface](https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html#synchronization),
[DLPack](https://dmlc.github.io/dlpack/latest/python_spec.html),
[StridedMemoryView](https://nvidia.github.io/cuda-python/cuda-core/latest/generated/cuda.core.utils.StridedMemoryView.html);
measured: `torch.from_dlpack` of a CuPy array orders the streams, `torch.as_tensor` does not.
""",
)
