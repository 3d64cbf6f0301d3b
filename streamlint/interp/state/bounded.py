"""Values that a program computes, no larger than the limits: larger ones are unknown."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.interp.state.budgets import LIMITS, Most
from streamlint.interp.state.values import ConstV, SymV, TupleV, Value, symbol_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.state.symbols import Plain
    from streamlint.interp.state.values import HeapObject

MOST_HELD = Most(64, "parts of an unknown value")
"""Parts that are kept, so that unknown code may order the streams among them."""


def constant(value: Plain) -> Value:
    """A number or text; one too large is a value of which nothing is known but that it is this one."""
    if fits(value):
        return ConstV(value)
    return SymV(symbols.constant(value))


def fits(value: object) -> bool:
    match value:
        case int():
            return value.bit_length() <= LIMITS.text
        case str() | bytes():
            return len(value) <= LIMITS.text
        case _:
            return True


def is_too_much(op: str, a: object, b: object) -> bool:
    """Whether ``a op b`` would be too large, told before it is computed: ``9**9**9``."""
    match op, a, b:
        case "**", int(), int() if b > 0:
            return a.bit_length() * b > LIMITS.text
        case "<<", int(), int() if b > 0:
            return a.bit_length() + b > LIMITS.text
        case "*", str() | bytes(), int():
            return len(a) * b > LIMITS.text
        case "*", int(), str() | bytes():
            return len(b) * a > LIMITS.text
        case _:
            return not fits(a) or not fits(b)


def tuple_of(items: Iterable[Value]) -> TupleV | SymV:
    """A tuple; ``a = (a, a)`` forty times is one value of which only streams and the like are kept."""
    made = TupleV(tuple(islice(items, LIMITS.elements + 1)))
    if made.size <= LIMITS.elements:
        return made
    return SymV(symbol_of(made), tuple(islice(dict.fromkeys(_leaves(made)), MOST_HELD.number)))


def _leaves(value: TupleV) -> Iterator[Value]:
    for item in value.items:
        if isinstance(item, TupleV):
            yield from _leaves(item)
        elif not isinstance(item, ConstV):
            yield item


def fill(held: HeapObject, items: Iterable[Value]) -> tuple[int, bool]:
    """Adds to a list: how many, and whether there are more than fit."""
    room = max(LIMITS.elements - len(held.items), 0)
    added = list(islice(items, room + 1))
    held.items.extend(added[:room])
    return len(added), len(added) > room
