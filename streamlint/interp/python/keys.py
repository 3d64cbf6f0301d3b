"""Which keys of a table are surely two: ``streams[device, "copy"]`` and ``streams[device, "compute"]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.interp.state.values import HeapV, SymV, TupleV
from streamlint.trace import StreamId

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import HeapObject, Value


def hashed(m: Machine, key: Value) -> Value:
    """A key as it is compared: each ``tuple(x.shape)`` of one ``x`` is the same."""
    match key:
        case TupleV(items):
            return TupleV(tuple(hashed(m, item) for item in items))
        case HeapV(number) if (held := m.heap[number]).kind == "tuple" and held.symbol is not None:
            return SymV(symbols.call("tuple", held.symbol))
        case _:
            return key


def standing(m: Machine, held: HeapObject, sought: Symbol) -> Symbol:
    """The key under which something stands that code takes out: the only one that it can be.

    ``fetch(name)`` has put a block, and ``del self.blocks[name]`` of another call takes one out: this one.
    """
    if held.open or sought in held.entries:
        return sought
    others = [key for key in held.entries if not are_two(m, key, sought)]
    return others[0] if len(others) == 1 else sought


def taken(m: Machine, held: HeapObject, sought: Symbol) -> Value | None:
    """Takes an entry out, with all names by which the table has given it."""
    key = standing(m, held, sought)
    held.keys.pop(key, None)
    found = held.entries.pop(key, None)
    for name in [name for name, value in held.extra.items() if value == found]:
        del held.extra[name]
    return found


def are_two(m: Machine, one: Symbol, other: Symbol) -> bool:
    """Whether two keys surely differ: those with the handles of two streams that the code has made do."""
    match one, other:
        case symbols.Const(kind, value), symbols.Const(other_kind, other_value):
            return kind is other_kind and value != other_value
        case symbols.Thing("stream", int() as first), symbols.Thing("stream", int() as second):
            made = (m.streams[StreamId(number)].span is not None for number in (first, second))
            return first != second and all(made)
        case symbols.Tuple(items), symbols.Tuple(others):
            pairs = zip(items, others, strict=False)
            return len(items) != len(others) or any(are_two(m, *pair) for pair in pairs)
        case _:
            return False
