"""Arrays that hold addresses: a kernel that gets one uses what they point to.

``table = cp.array([one.data.ptr, two.data.ptr])``, or a host array of addresses that is copied to the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state.values import BufferV, ConstV, Flavor, HeapV, Shape, TupleV, Value

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine


def listed(m: Machine, value: Value) -> tuple[Value, ...]:
    """The elements of a list of addresses and numbers; nothing for any other value."""
    items: tuple[Value, ...] = ()
    if isinstance(value, TupleV):
        items = value.items
    elif isinstance(value, HeapV) and m.heap[value.id].shape is Shape.LIST and not m.heap[value.id].open:
        items = tuple(m.heap[value.id].items)
    pointers = [item for item in items if isinstance(item, BufferV) and item.flavor is Flavor.POINTER]
    return items if pointers and all(isinstance(item, ConstV) or item in pointers for item in items) else ()


def copied(m: Machine, dst: BufferV, src: BufferV) -> None:
    """What is copied from a table is one."""
    if src.id in m.addresses:
        m.addresses[dst.id] = m.addresses[src.id]
