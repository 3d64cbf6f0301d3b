"""SL901 pageable-async-copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules.base import Judged, Note, Problem, Rule, quoted
from streamlint.trace import Copy, HostEffect, OpId, Space
from streamlint.witness import ByTime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.trace import Access

_TORCH = frozenset({"copy_", "to device", "to cpu"})
"""PyTorch's copies; those that were not asked to be asynchronous have ``HostEffect.BLOCKS``."""
_FLAGS = ("non_blocking", "pin_memory")
"""Whether these hold is the caller's choice: a path that assumes one of them tells nothing."""


def check(judged: Judged) -> Iterator[Problem]:
    if any(flag in condition for condition in judged.trace.path for flag in _FLAGS):
        return
    for number, op in enumerate(judged.trace.ops):
        if isinstance(op, Copy) and _asked_to_return_at_once(op):
            access = _pageable(judged, op)
            if access is not None and not judged.trace.buffers[access.buffer].of_values:
                yield _problem(judged, OpId(number), op, access)


def _asked_to_return_at_once(op: Copy) -> bool:
    if op.name in _TORCH:
        return op.host in (HostEffect.STAGED, HostEffect.BLOCKS_OBSERVED)
    return op.name.endswith(("Async", "AsyncV2"))


def _pageable(judged: Judged, op: Copy) -> Access | None:
    """The side in pageable memory, the other side being the device's.

    A value or two (``torch.tensor([step]).to(device, non_blocking=True)``) are staged at once: nobody minds.
    """
    spaces = [judged.trace.buffers[access.buffer].space for access in op.accesses]
    if any(space is Space.UNKNOWN or space is Space.MANAGED for space in spaces):
        # x.to(device) of unknown x: where the copy starts is a guess. A device named by a variable is not.
        spaces = [space for space in spaces if space is not Space.UNKNOWN]
    if Space.DEVICE not in spaces or op.doubts:
        return None
    return next(
        (a for a in op.accesses if judged.trace.buffers[a.buffer].space is Space.PAGEABLE),
        None,
    )


def _pinned_elsewhere(other: Judged, op: Copy) -> bool:
    """Whether another path copies from or to other memory at the same place: ``if pin: ...`` decides."""
    same = [
        candidate
        for candidate in other.trace.ops
        if isinstance(candidate, Copy)
        and (candidate.at.span, candidate.at.calls) == (op.at.span, op.at.calls)
    ]
    return any(_pageable(other, candidate) is None for candidate in same)


def _problem(judged: Judged, number: OpId, op: Copy, access: Access) -> Problem:
    buffer = judged.trace.buffers[access.buffer]
    name = quoted(judged.seen_from(number).buffer_name(access.buffer, access.region))
    inwards = access is op.src
    message = (
        f"{name} is in pageable memory: it is staged before the copy, which does not overlap with the host"
        if inwards
        else f"{name} is in pageable memory: the host waits for the copy"
    )
    return Problem(
        later=number,
        buffer=access.buffer,
        message=message,
        label="from pageable memory" if inwards else "into pageable memory",
        help="use page-locked memory: `pin_memory=True`, `tensor.pin_memory()`, `cudaMallocHost`",
        notes=() if buffer.span is None else (Note(buffer.span, "in pageable memory"),),
        doubts=op.doubts | access.doubts,
        settled_by=lambda other: _pinned_elsewhere(other, op),
    )


RULE = Rule(
    code="SL901",
    name="pageable-async-copy",
    summary="`non_blocking=True` or an async copy on pageable memory: it blocks",
    severity=Severity.ADVICE,
    default=False,
    check=check,
    witness=ByTime(of_itself=True),
    doc="""\
## What it does
Reports copies that are asked to be asynchronous (`non_blocking=True`, `cudaMemcpyAsync`) from or to
memory that is known to be pageable: a tensor made without `pin_memory`, a numpy array, an element of a
`DataLoader` that does not pin.

## Why is this bad?
The device cannot copy from or to pageable memory itself. A copy to the host waits until it is done. A
copy to the device is staged by the host first, and large ones wait too. The result is right, but the
overlap that the code was written for does not happen.

## Example
```python
host = torch.empty(n)
host.copy_(x, non_blocking=True)
```

Use instead:
```python
host = torch.empty(n, pin_memory=True)
host.copy_(x, non_blocking=True)
```

## Limits
Only memory whose allocation is in sight. A `DataLoader` counts if it has workers and no `collate_fn`.
Small copies to the device return at once, staged: of a tensor without a name, as in
`torch.tensor([step]).to(device, non_blocking=True)`, nothing is said.

## Source
Measured: `cudaMemcpyAsync` into pageable memory blocks at every size, from pageable memory from 4 MB on.
""",
)
