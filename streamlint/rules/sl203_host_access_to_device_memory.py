"""SL203 host-access-to-device-memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules.base import About, Judged, Note, Problem, Rule, quoted
from streamlint.trace import Access, HostAccess, OpId, Origin, Space
from streamlint.witness import ByError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.trace import Buffer, BufferId


def check(judged: Judged) -> Iterator[Problem]:
    """The first access to each block: the others have the same cause."""
    reported: set[BufferId] = set()
    for number, op in enumerate(judged.trace.ops):
        if not isinstance(op, HostAccess):
            continue
        for access in op.accesses:
            buffer = judged.trace.buffers[access.buffer]
            if _is_device_memory(buffer) and access.buffer not in reported:
                reported.add(access.buffer)
                yield _problem(judged, OpId(number), op, access)
                break


def _is_device_memory(buffer: Buffer) -> bool:
    """Memory that the trace itself allocates on the device; of other memory the place is inferred."""
    return buffer.space is Space.DEVICE and buffer.origin is Origin.ALLOCATED


def _problem(judged: Judged, number: OpId, op: HostAccess, access: Access) -> Problem:
    buffer = judged.trace.buffers[access.buffer]
    name = quoted(judged.seen_from(number).buffer_name(access.buffer, access.region))
    verb = "writes" if access.mode.writes else "reads"
    return Problem(
        later=number,
        buffer=access.buffer,
        message=f"the host {verb} {name}, which is device memory",
        label=f"the host {verb} through a device address",
        help="copy the memory to the host and use the copy, or allocate managed memory",
        notes=() if buffer.span is None else (Note(buffer.span, "allocated on the device here"),),
        doubts=op.doubts | access.doubts,
        explains=frozenset((c.earlier, c.later) for c in judged.conflicts if c.later == number),
    )


RULE = Rule(
    code="SL203",
    name="host-access-to-device-memory",
    summary="a device pointer dereferenced on the host",
    severity=Severity.ERROR,
    about=About.ORDER,
    check=check,
    witness=ByError(crash=True),
    doc="""\
## What it does
Reports host code that reads or writes memory of `cudaMalloc`, `cudaMallocAsync` and the like through
its address: a numpy or ctypes view made over the device pointer, `ctypes.memmove` into it.

## Why is this bad?
A device pointer is no address of the host. The process crashes, or reads whatever happens to be
mapped there.

## Example
```python
a = check(cudart.cudaMalloc(size))
view = np.ctypeslib.as_array((ctypes.c_ubyte * size).from_address(a))
return view[0]
```

Use instead:
```python
a = check(cudart.cudaMalloc(size))
host = check(cudart.cudaMallocHost(size))
check(cudart.cudaMemcpy(host, a, size, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost))
view = np.ctypeslib.as_array((ctypes.c_ubyte * size).from_address(host))
return view[0]
```

## Limits
Only memory whose allocation is in sight is known to be the device's. On systems where the CPU can
address device memory the access works, slowly.

## Source
[Memory management](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html).
""",
)
