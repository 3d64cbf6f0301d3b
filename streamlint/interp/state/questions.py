"""What a test asks, whichever element, pass or call of a function it asks of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state.symbols import (
    EACH,
    Attr,
    Binary,
    Call,
    Compare,
    Fresh,
    Item,
    Name,
    Param,
    has,
    number,
)

if TYPE_CHECKING:
    from streamlint.interp.state.symbols import Symbol

_DEPTH = 12


def of_any(symbol: Symbol, depth: int = _DEPTH) -> Symbol:
    """The same for every element, pass and call: what ``isinstance(batch[key], Tensor)`` asks of each key.

    So with what passes add up: ``self.seen += batch.shape[0]``, and then ``if self.seen > self.window``.
    """
    if not depth or not has(symbol, Item, Fresh, Param, Binary):
        return symbol
    match symbol:
        case Item(of, at):
            return Item(of_any(of, depth - 1), EACH if number(at) is not None else of_any(at, depth - 1))
        case Attr(of, name):
            return Attr(of_any(of, depth - 1), name)
        case Fresh(what, path, line, col):
            return Fresh(of_any(what, depth - 1), path, line, col, 0, 0, 0)
        case Param(_, name, rest):
            return Param(0, name, rest)
        case Call(func, args):
            return Call(of_any(func, depth - 1), tuple(of_any(arg, depth - 1) for arg in args))
        case Compare("==", Binary("-", Call(Name("len"))), _):
            # ``bucket.pending == 0``, which counts down to the last of its parameters
            return symbol
        case Compare(op, left, right):
            return Compare(op, of_any(left, depth - 1), of_any(right, depth - 1))
        case Binary("-", Call(Name("len"), (of, *_)), _):
            # ``while row < len(requests)``, whose passes take some out
            return Call(Name("len"), (of_any(of, depth - 1),))
        case Binary("+", total, part):
            return _added_up(total, of_any(part, depth - 1), depth)
        case _:
            return symbol


def of_any_pass(symbol: Symbol, depth: int = _DEPTH) -> Symbol:
    """The same for every pass and call, and of one element: what ``next(batches)`` gives each time."""
    if not depth or not has(symbol, Fresh):
        return symbol
    match symbol:
        case Item(of, at):
            return Item(of_any_pass(of, depth - 1), of_any_pass(at, depth - 1))
        case Attr(of, name):
            return Attr(of_any_pass(of, depth - 1), name)
        case Fresh(what, path, line, col):
            return Fresh(of_any_pass(what, depth - 1), path, line, col, 0, 0, 0)
        case Call(func, args):
            return Call(of_any_pass(func, depth - 1), tuple(of_any_pass(arg, depth - 1) for arg in args))
        case Compare(op, left, right):
            return Compare(op, of_any_pass(left, depth - 1), of_any_pass(right, depth - 1))
        case _:
            return symbol


def _added_up(total: Symbol, part: Symbol, depth: int) -> Symbol:
    """``total + part``, where adding the same once more asks nothing else."""
    before = total
    while isinstance(before, Binary) and before.op == "+" and of_any(before.right, depth - 1) is part:
        before = before.left
    first = of_any(before, depth - 1)
    return part if first is part else Binary("+", first, part)
