"""Tensors of one operator live on one device: what shows where one of them is shows it of the others.

``packed.add_(bias)`` with ``bias`` on a device: a tensor of the host takes nothing from there. A copy of it,
``row.copy_(packed)``, is work like any other then, and the host does not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from streamlint.interp.state.values import BufferV
from streamlint.trace import Copy, Doubt, Evidence, HostEffect, Launch, Mode, Role, Space

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.trace import BufferId

_JOINED = frozenset({"cat", "concat", "concatenate", "stack", "vstack", "hstack"})
"""Operators that take tensors of one place only; others mix in numbers that a tensor of the host holds."""


def settle(m: Machine) -> None:
    """Notes where memory is, as the operators of a finished path show it, and what its copies are."""
    if not any(_was_unknown(op) for op in m.ops):
        return
    groups = [*_groups(m)]
    for group in (*groups, *reversed(groups)):
        if any(_is_on_device(m, number) for number in group):
            for number in group:
                if m.buffers[number].space is Space.UNKNOWN:
                    m.lives(BufferV(number), Space.DEVICE, Evidence.INFERRED)
    for place, op in enumerate(m.ops):
        if (
            _was_unknown(op)
            and _is_on_device(m, op.src.buffer)
            and not m.buffers[op.dst.buffer].space.on_host
        ):
            m.ops[place] = Launch(
                op.at,
                op.lane,
                op.doubts | {Doubt.INFERRED},
                stream=op.stream,
                accesses=op.accesses,
                name=op.name,
                library=op.library,
                choice=op.choice,
            )


def _was_unknown(op: object) -> TypeGuard[Copy]:
    """Whether a copy would have blocked if its source had been on the host."""
    return isinstance(op, Copy) and op.host is HostEffect.BLOCKS_OBSERVED


def _is_on_device(m: Machine, number: BufferId) -> bool:
    known = m.buffers[number]
    return known.space is Space.DEVICE and known.residence is not Evidence.ASSUMED


def _groups(m: Machine) -> Iterator[tuple[BufferId, ...]]:
    """Memory that is in one place, by the operators of the path."""
    yield from m.made_of.items()
    for op in m.ops:
        if isinstance(op, Launch) and op.role is Role.CODE and not op.doubts:
            written = [access.buffer for access in op.accesses if access.mode is not Mode.READ]
            read = [access.buffer for access in op.accesses if access.mode is Mode.READ]
            if op.name in _JOINED:
                yield (*read, *written)
            elif op.name.endswith("_") and op.name != "copy_" and any(_is_on_device(m, n) for n in read):
                yield (*written, *(number for number in read if _is_on_device(m, number)))
