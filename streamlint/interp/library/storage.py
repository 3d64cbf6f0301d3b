"""The memory of a tensor apart from the tensor: ``x.untyped_storage().resize_(0)`` gives it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import lifetime
from streamlint.interp.state.values import BufferV, ConstV, Value
from streamlint.models.schema import Lib
from streamlint.trace import Origin, Space, Symbol

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

GETTERS = frozenset({"untyped_storage", "storage"})

_WHOLE = (Symbol(".storage"),)


def of(view: BufferV) -> BufferV:
    return BufferV(view.id, _WHOLE, view.flavor)


def is_storage(view: BufferV) -> bool:
    return view.region == _WHOLE


def resized(m: Machine, view: BufferV, size: Value, span: Span) -> BufferV:
    """``resize_(0)`` gives the memory back; with another size all that is in it is allocated anew.

    What the tensor and its views stand for is the new memory then.
    """
    if size == ConstV(0):
        lifetime.drop(m, view, span, "resize_(0)")
        return view
    old = m.buffers[view.id]
    stream = m.current_stream(Lib.TORCH, old.device)
    made = m.new_buffer(old.name, Space.DEVICE, Origin.RESULT, view.flavor, span, stream.id, old.device)
    for number, moved in m.life.moved.items():
        if moved.id == view.id:
            m.life.moved[number] = made
    m.life.moved[view.id] = made
    return made
