"""``threading.local()``: each thread has attributes of its own, and none at first.

``if not hasattr(self.local, "stream"): self.local.stream = Stream()`` makes a stream for each thread. So does
``class Own(threading.local)`` with a constructor, which each thread runs when it comes to the object first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import classes
from streamlint.interp.state.values import ConstV, FuncV, HeapV, PartialV, Shape, Value

if TYPE_CHECKING:
    from streamlint import ir
    from streamlint.interp.state.machine import Machine

PATH = "threading.local"
_ROLE = "thread local"
_OF_LANE = "attributes of a thread"
_PREMISE = "two threads of the pool run it"


def make(m: Machine) -> HeapV:
    return m.new_object(Shape.INSTANCE, role=_ROLE)


def made_of(m: Machine, decl: ir.ClassDecl, args: list[Value], kwargs: dict[str, Value]) -> HeapV | None:
    """An object of a class that is derived from ``threading.local``; None of any other class."""
    if not classes.derives_from(m.project, decl, frozenset({PATH})):
        return None
    made = m.new_object(Shape.INSTANCE, role=_ROLE, cls=decl)
    constructor = classes.lookup(m, decl, "__init__")
    if isinstance(constructor, FuncV):
        m.heap[made.id].items.append(PartialV(constructor, tuple(args), kwargs))
    of_lane(m, made)
    return made


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
        mine = m.new_object(Shape.INSTANCE, role=_OF_LANE, cls=m.heap[value.id].cls)
        own[str(thread)] = mine
        match m.heap[value.id].items:
            case [PartialV(FuncV() as constructor, args, kwargs)]:
                begun = replace(constructor, receiver=mine)
                m.python.call(m, begun, list(args), dict(kwargs), constructor.function.span)
            case _:
                pass
    return own[str(thread)]


def lacks(m: Machine, value: Value, name: Value) -> bool:
    """Whether the thread that runs has put nothing there yet."""
    mine = of_lane(m, value)
    if not isinstance(mine, HeapV) or m.heap[mine.id].role != _OF_LANE or not isinstance(name, ConstV):
        return False
    held = m.heap[mine.id]
    of_class = held.cls is not None and classes.lookup(m, held.cls, str(name.value)) is not None
    return name.value not in held.attrs and not of_class
