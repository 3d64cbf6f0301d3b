"""The elements of what has a known length, and the parts of memory that indexing names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import names
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ConstV,
    HeapObject,
    HeapV,
    Shape,
    SliceV,
    TupleV,
    Value,
    key_of,
)
from streamlint.trace import UNBOUNDED, Interval, Region, Selector, Symbol, SymbolSlice

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine


def listed(m: Machine, value: Value) -> list[Value] | None:
    """The elements of a value whose length is known, in order."""
    value = names.settle(m, value)
    match value:
        case TupleV(items):
            return list(items)
        case HeapV():
            held = m.heap[value.id]
            if held.shape is Shape.INSTANCE:
                return fields(held)
            if held.open:
                return None
            if held.shape is Shape.DICT:
                return [held.keys[key] for key in held.attrs]
            return list(held.items)
        case _:
            return None


def fields(held: HeapObject) -> list[Value] | None:
    """The fields of a named tuple: ``start, finish, ids = ack``."""
    if held.cls is None or not any(base.rpartition(".")[2] == "NamedTuple" for base in held.cls.bases):
        return None
    return list(held.attrs.values())


def selected(value: BufferV, at: Value) -> Region:
    """The region of ``value[at]``."""
    parts = at.items if isinstance(at, TupleV) else (at,)
    chosen = [selector(part) for part in parts if not _is_ellipsis(part)]
    while chosen and chosen[-1] == SymbolSlice(None, None):
        chosen.pop()
    return (*value.region, *chosen)


def along(view: BufferV, name: str, args: list[Value]) -> BufferV:
    """``x.narrow(axis, start, length)`` and ``x.select(axis, i)``; other axes than 0 select nothing here."""
    match name, args:
        case "narrow", [ConstV(0), ConstV(int() as start), ConstV(int() as length)] if start >= 0:
            return BufferV(view.id, (*view.region, Interval(start, start + length)), view.flavor)
        case "narrow", [ConstV(0), start, length]:
            end = key_of(length) if start == ConstV(0) else f"({key_of(start)}+{key_of(length)})"
            lower = None if start == ConstV(0) else key_of(start)
            return BufferV(view.id, (*view.region, SymbolSlice(lower, end)), view.flavor)
        case "select", [ConstV(0), ConstV(int() as at)] if at >= 0:
            return BufferV(view.id, (*view.region, Interval(at, at + 1)), view.flavor)
        case "select", [ConstV(0), at]:
            return BufferV(view.id, (*view.region, Symbol(key_of(at))), view.flavor)
        case _:
            return view


def _is_ellipsis(part: Value) -> bool:
    return part == NONE


def selector(at: Value) -> Selector:
    match at:
        case ConstV(int() as i) if i >= 0:
            return Interval(i, i + 1)
        case SliceV(lo, hi, _):
            low = _bound(lo)
            high = _bound(hi)
            if (low is None or low.isdigit()) and high is not None and high.isdigit():
                return Interval(int(low or 0), int(high))
            if low is not None and low.isdigit() and low != "0" and high is None:
                return Interval(int(low), UNBOUNDED)
            return SymbolSlice(None if low == "0" else low, high)
        case _:
            return Symbol(key_of(at))


def _bound(value: Value | None) -> str | None:
    return None if value is None or value == NONE else key_of(value)
