"""What an object holds, by name: its attributes as a table, and objects that are made from others.

``for name, x in vars(batch).items()``, ``dataclasses.replace(batch, ids=ids.to("cpu", non_blocking=True))``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.facts import classes
from streamlint.interp.python import containers, instances
from streamlint.interp.state.values import ClassV, ConstV, HeapV, Shape, TupleV, Value
from streamlint.models import host

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def of_function(m: Machine, path: str, value: Value, changes: dict[str, Value], span: Span) -> Value | None:
    """A function of ``dataclasses`` and its kin; None for others, and for objects of unknown classes."""
    if path == "dataclasses.fields":
        return _listed(m, value)
    return replaced(m, value, changes, span) if path in host.REPLACES_FIELDS else None


def _listed(m: Machine, value: Value) -> Value | None:
    """``dataclasses.fields(state)``: what tells the fields of a dataclass of the tree, each with its name."""
    held = m.heap[value.id] if isinstance(value, HeapV) else None
    decl = held.cls if held is not None else value.decl if isinstance(value, ClassV) else None
    declared = classes.dataclass_fields(m, decl) if decl is not None else None
    if declared is None:
        return None
    told = []
    for name in declared:
        one = m.new_object(Shape.INSTANCE, role="field")
        m.heap[one.id].attrs["name"] = ConstV(name)
        told.append(one)
    return TupleV(tuple(told))


def table(m: Machine, value: HeapV) -> HeapV:
    """``vars(batch)``, ``batch.__dict__``: its attributes by their names."""
    made = m.new_object(Shape.DICT)
    for name, held in m.heap[value.id].attrs.items():
        containers.put(m, m.heap[made.id], ConstV(name), held)
    return made


def replaced(m: Machine, value: Value, changes: dict[str, Value], span: Span) -> Value | None:
    """``dataclasses.replace(batch, ids=ids)``: another object of its class, with its other fields."""
    held = m.heap[value.id] if isinstance(value, HeapV) else None
    if held is None or held.cls is None:
        return None
    declared = classes.dataclass_fields(m, held.cls)
    if declared is None:
        return None
    kept = {name: held.attrs[name] for name in declared if name in held.attrs}
    return instances.instantiate(m, held.cls, [], {**kept, **changes}, span)


def of_tuple(m: Machine, value: HeapV, name: str, changes: dict[str, Value], span: Span) -> Value | None:
    """The two methods of a named tuple that give its fields by name; None for other methods."""
    match name:
        case "_replace":
            return replaced(m, value, changes, span)
        case "_asdict":
            return table(m, value)
        case _:
            return None
