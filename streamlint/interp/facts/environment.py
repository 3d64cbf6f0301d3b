"""Variables of the environment: a default that is written where one is read is what it usually has."""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.interp.state.values import ConstV, SymV, Value, symbol_of
from streamlint.models import host

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span


def read(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> SymV | None:
    """``os.getenv("USE_CPU", "0")``: what it gives is unknown, and where it comes from is not."""
    given = [*args, *kwargs.values()]
    if path not in host.READ_ENVIRONMENT or not all(isinstance(value, ConstV) for value in given):
        return None
    return SymV(m.unlike_any(symbols.call(path, *map(symbol_of, given)), span))


def usual_answer(asked: Symbol) -> bool | None:
    """What a test is answered where nobody has set the variables that it asks for; None of other tests."""
    match _usual(asked):
        case symbols.Const(_, str() as text) if text.isdecimal():
            # It was made a number: int(os.getenv("USE_CPU", "0")), which is the same symbol.
            return int(text) != 0
        case symbols.Const(_, value):
            return bool(value)
        case None:
            return None


def _usual(symbol: Symbol) -> symbols.Const | None:
    """What a symbol stands for that is computed of variables of the environment; None for all others."""
    match symbol:
        case symbols.Fresh(what):
            return _usual(what)
        case symbols.Call(symbols.Name(path), (_, symbols.Const() as default)):
            return default if path in host.READ_ENVIRONMENT else None
        case symbols.Call(symbols.Attr(of, name), ()) if name in host.NORMALIZE_TEXT:
            known = _usual(of)
            text = known.value if known is not None else None
            return symbols.constant(methodcaller(name)(text)) if isinstance(text, str) else None
        case symbols.Compare("==" | "is", of, other):
            return _among(_usual(of), (other,))
        case symbols.Compare("in", of, symbols.Tuple(others)):
            return _among(_usual(of), others)
        case _:
            return None


def _among(known: symbols.Const | None, others: tuple[Symbol, ...]) -> symbols.Const | None:
    """``int(os.getenv("LANES", "0")) == 0``: which of the two was made a number does not matter."""
    texts = [str(other.value) for other in others if isinstance(other, symbols.Const)]
    if known is None or len(texts) < len(others):
        return None
    return symbols.constant(str(known.value) in texts)
