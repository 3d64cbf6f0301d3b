"""``threading.local()``: each thread has attributes of its own, and none at first.

``if not hasattr(self.local, "stream"): self.local.stream = Stream()`` makes a stream for each thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state.values import ConstV, HeapV, Shape, Value

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine

PATH = "threading.local"
_ROLE = "thread local"
_OF_LANE = "attributes of a thread"
_PREMISE = "two threads of the pool run it"


def make(m: Machine) -> HeapV:
    return m.new_object(Shape.INSTANCE, role=_ROLE)


def of_lane(m: Machine, value: Value) -> Value:
    """What such an object is to the thread that runs; anything else as it is."""
    if not isinstance(value, HeapV) or m.heap[value.id].role != _ROLE:
        return value
    own = m.heap[value.id].attrs
    thread = m.threads.get(m.lane, m.lane)
    if str(thread) not in own:
        if own and thread in m.pooled and _PREMISE not in m.premises:
            # A thread that is idle may do both.
            m.premises.append(_PREMISE)
        own[str(thread)] = m.new_object(Shape.INSTANCE, role=_OF_LANE)
    return own[str(thread)]


def lacks(m: Machine, value: Value, name: Value) -> bool:
    """Whether the thread that runs has put nothing there yet."""
    mine = of_lane(m, value)
    if not isinstance(mine, HeapV) or m.heap[mine.id].role != _OF_LANE or not isinstance(name, ConstV):
        return False
    return name.value not in m.heap[mine.id].attrs
