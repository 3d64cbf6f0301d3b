"""What code has put into objects of which nothing else is known: ``batch["image"] = upload(batch["image"])``.

It stands among the roles of a path, by its place. An object that code got from an iterator is its own: what
was put into it lives as long as something holds the object. Others may be held by whoever gave them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.interp.state.values import BufferV, TupleV, Value
from streamlint.trace import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


def whole(symbol: Symbol) -> Symbol:
    """The object that something is a part of: ``batch`` of ``batch.lens[0]``."""
    while isinstance(symbol, (symbols.Attr, symbols.Item)):
        symbol = symbol.of
    return symbol


def owned(symbol: Symbol) -> Symbol | None:
    """The object that a place is a part of, if nobody but the code at hand is taken to hold that."""
    if not symbols.has(symbol, symbols.Fresh):
        return None
    above = whole(symbol)
    is_own = isinstance(above, symbols.Fresh) and symbols.function_called(above) == "next"
    return above if is_own and above is not symbol else None


def memory_in(m: Machine, symbol: Symbol) -> list[BufferV]:
    """The memory that code has made and put into an unknown object."""
    return [
        view
        for place, value in m.roles.items()
        if isinstance(value, (BufferV, TupleV)) and _is_in(place, symbol)
        for view in _made(m, value)
    ]


def _is_in(place: Symbol, symbol: Symbol) -> bool:
    while isinstance(place, (symbols.Attr, symbols.Item)):
        place = place.of
        if place is symbol:
            return True
    return False


def _made(m: Machine, value: Value) -> Iterator[BufferV]:
    match value:
        case BufferV(number) if m.buffers[number].origin is not Origin.ARGUMENT:
            yield value
        case TupleV(items):
            for item in items:
                yield from _made(m, item)
        case _:
            pass


def at(m: Machine, place: symbols.Item) -> Value | None:
    """What code has put at a place, or at each: a loop over the keys of a dict has come by all of them."""
    found = m.roles.get(place)
    if found is not None:
        return found
    first = symbols.Item(place.of, symbols.constant(0))
    return m.roles.get(symbols.Item(place.of, first)) if place.at is not first else None
