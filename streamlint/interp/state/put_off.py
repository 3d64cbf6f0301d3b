"""What a path puts off until later code shows what it is, or runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import frozen
from streamlint.interp.state.values import Flavor
from streamlint.trace import Evidence

if TYPE_CHECKING:
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import FuncV, HeapV, StreamV, SymV, Value


@frozen()
class Guess:
    """One operator whose operands are unknown: see ``interp/facts/guesses.py``."""

    op: int
    result: Symbol
    operands: tuple[Value, ...]
    flavor: Flavor = Flavor.TORCH
    kind: Evidence = Evidence.ASSUMED
    """How it is known that it is work."""
    name: str = ""
    """The first variable that held the result."""


@frozen()
class Applied:
    """A function that was applied, and is yet to be run in a backward pass."""

    backward: FuncV
    context: SymV
    stream: StreamV


@frozen(eq=False)
class Sleeper:
    """A thread that took, or will take, what is put into a queue: ``while True: save(q.get())``."""

    thread: HeapV
    target: Value
    args: list[Value]
    kwargs: dict[str, Value]
    wakes: int = 0
