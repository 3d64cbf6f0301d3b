"""What unseen callers pass: how it is told apart on a path, and what its trace says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.interp.state.values import SymV
from streamlint.trace import Passed

if TYPE_CHECKING:
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import Value


def unknown(call: int, name: str, *, rest: bool = False) -> SymV:
    """The argument ``name`` of a call from outside; ``rest``: those that ``*name`` takes."""
    return SymV(symbols.Param(call, name, rest))


def passed(symbol: Symbol) -> Passed | None:
    """What the caller of a call from outside passes, if an unknown value is that or a part of it."""
    if not symbols.has(symbol, symbols.Param):
        return None
    match reached_from(symbol):
        case symbols.Param(call, name, rest), part:
            return Passed(call, name, part, rest=rest)
        case _:
            return None


def reached_from(symbol: Symbol) -> tuple[Symbol, str]:
    """Where a value begins, and what is taken of that: ``lanes`` and ``[0].rows`` of ``lanes[0].rows``."""
    part = ""
    while True:
        match symbol:
            case symbols.Attr(of, name):
                symbol, part = of, f".{name}{part}"
            case symbols.Item(of, at):
                symbol, part = of, f"[{symbols.text_of(at)}]{part}"
            case symbols.Call(of):
                symbol, part = of, f"(){part}"
            case symbols.Fresh(of):
                symbol = of
            case _:
                return symbol, part


def is_rest(value: Value) -> bool:
    """Whether it stands for any number of arguments: ``*args`` of which nothing is known."""
    match value:
        case SymV(symbols.Spread() | symbols.Param(rest=True)):
            return True
        case _:
            return False
