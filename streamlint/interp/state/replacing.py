"""A symbol with one that it is made of replaced by another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import numbers
from streamlint.interp.state.symbols import (
    Attr,
    Binary,
    Call,
    Formatted,
    Fresh,
    Function,
    Item,
    Memory,
    Spread,
    Tuple,
    formatted,
    has,
)

if TYPE_CHECKING:
    from streamlint.interp.state.symbols import Symbol


def replaced(symbol: Symbol, part: Symbol, by: Symbol) -> Symbol:
    """The same with ``by`` wherever ``part`` stands: ``blocks[0].weight`` for ``blocks[each].weight``.

    So it is of views, ``bands[2][0]`` for ``bands[each][0]``, and of texts, ``cuda:2`` for ``cuda:each``.

    In conditions it stays as it is.
    """

    def inside(one: Symbol) -> Symbol:
        return replaced(one, part, by)

    if symbol is part:
        return by
    if not has(symbol, type(part)):
        return symbol
    match symbol:
        case Memory(number, region) if isinstance(part, Memory) and isinstance(by, Memory):
            begin = len(part.region)
            is_in = number == part.number and region[:begin] == part.region
            return Memory(by.number, by.region + region[begin:]) if is_in else symbol
        case Attr(of, name):
            return Attr(inside(of), name)
        case Item(of, at):
            return Item(inside(of), inside(at))
        case Spread(of):
            return Spread(inside(of))
        case Call(func, args):
            return Call(inside(func), tuple(map(inside, args)))
        case Tuple(items):
            return Tuple(tuple(map(inside, items)))
        case Binary(op, left, right):
            return numbers.computed(op, inside(left), inside(right))
        case Formatted(around, values):
            return formatted(around, tuple(map(inside, values)))
        case Fresh(what, path, line, col, turn, call, depth):
            return Fresh(inside(what), path, line, col, turn, call, depth)
        case Function(path, line, col, made_in, receiver) if receiver is not None:
            return Function(path, line, col, made_in, inside(receiver))
        case _:
            return symbol
