"""What was taken for memory and turned out to be none: modules, numbers, handles and lists of them.

``sent = start(x)`` of unseen code may be a tensor, until ``for work in sent + received: work.wait()`` shows
what is in it. What was taken for work on it before was none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.trace import Evidence, HostAccess, Launch, Mode, Symbol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import BufferV
    from streamlint.trace import Access, BufferId, Op

_JOINS = "operator +"
"""Of what is no memory: two lists make one."""


def is_waited_for(m: Machine, view: BufferV) -> None:
    """``work.wait()``: tensors have nothing to wait for, and neither have the elements of one."""
    if not _of_a_part(view.region) and m.buffers[view.id].kind is not Evidence.SHOWN:
        m.objects.add(view.id)


def settle(m: Machine) -> None:
    """Takes back what a finished path took for work on such things."""
    for op in reversed(m.ops):
        if isinstance(op, (Launch, HostAccess)) and op.name == _JOINS and _makes(op.accesses, m.objects):
            m.objects.update(
                access.buffer for access in op.accesses if m.buffers[access.buffer].kind is not Evidence.SHOWN
            )
    if m.objects:
        m.ops = [_without(op, m.objects) for op in m.ops]


def _makes(accesses: Iterable[Access], things: set[BufferId]) -> bool:
    return any(access.mode is Mode.WRITE and access.buffer in things for access in accesses)


def _without(op: Op, things: set[BufferId]) -> Op:
    if not isinstance(op, (Launch, HostAccess)):
        return op
    kept = tuple(a for a in op.accesses if a.buffer not in things or _of_a_part(a.region))
    return op if len(kept) == len(op.accesses) else replace(op, accesses=kept)


def _of_a_part(region: Iterable[object]) -> bool:
    """``out.logits``: what an object has may be memory, though the object is none."""
    return any(isinstance(part, Symbol) and part.text.startswith(".") for part in region)
