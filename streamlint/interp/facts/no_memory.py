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
    from collections.abc import Set as AbstractSet

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import BufferV
    from streamlint.trace import Access, BufferId, Op, Region

_JOINS = "operator +"
"""Of what is no memory: two lists make one."""


def is_waited_for(m: Machine, view: BufferV) -> None:
    """``work.wait()``: tensors have nothing to wait for, and neither have the elements of one.

    Of what was unpacked (``rows, work = comm.start(x)``) the others may be tensors all the same.
    """
    if _of_a_part(view.region) or m.buffers[view.id].kind is Evidence.SHOWN:
        return
    if view.region and view.id in m.unpacked:
        m.waited_for.add((view.id, view.region))
    else:
        m.objects.add(view.id)


def is_number(m: Machine, view: BufferV) -> bool:
    """Notes that an operator takes something for a number, if nothing shows that it is a tensor.

    ``m.add_(g, alpha=1 - beta)``: what was taken to be computed on a stream was not.
    """
    if m.buffers[view.id].kind is Evidence.SHOWN:
        return False
    if not view.region:
        m.objects.add(view.id)
    return True


def is_none(m: Machine, view: BufferV) -> bool:
    """Whether something turned out to be no memory, or is a part of a result that did."""
    return view.id in m.objects or _is_of(view.id, view.region, m.waited_for)


def _is_of(number: BufferId, region: Region, parts: AbstractSet[tuple[BufferId, Region]]) -> bool:
    return bool(parts) and any(number == of and region[: len(part)] == part for of, part in parts)


def settle(m: Machine) -> None:
    """Takes back what a finished path took for work on such things."""
    for op in reversed(m.ops):
        if isinstance(op, (Launch, HostAccess)) and op.name == _JOINS and _makes(op.accesses, m.objects):
            m.objects.update(
                access.buffer for access in op.accesses if m.buffers[access.buffer].kind is not Evidence.SHOWN
            )
    if m.objects or m.waited_for:
        m.ops = [_without(m, op) for op in m.ops]


def _makes(accesses: Iterable[Access], things: set[BufferId]) -> bool:
    return any(access.mode is Mode.WRITE and access.buffer in things for access in accesses)


def _without(m: Machine, op: Op) -> Op:
    if not isinstance(op, (Launch, HostAccess)):
        return op
    kept = tuple(
        access
        for access in op.accesses
        if _of_a_part(access.region)
        or not (access.buffer in m.objects or _is_of(access.buffer, access.region, m.waited_for))
    )
    return op if len(kept) == len(op.accesses) else replace(op, accesses=kept)


def _of_a_part(region: Iterable[object]) -> bool:
    """``out.logits``: what an object has may be memory, though the object is none."""
    return any(isinstance(part, Symbol) and part.text.startswith(".") for part in region)
