"""Which keys of a table are surely two: ``streams[device, "copy"]`` and ``streams[device, "compute"]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.trace import StreamId

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


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
