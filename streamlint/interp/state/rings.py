"""Rings of unknown size: ``ring[k % lanes]`` comes back to its first slot after ``lanes`` passes.

Nothing says how many slots there are. Where an index is a number that was reduced by an unknown one, the ring
is taken to have two: a program that is right for any number is right for two. The path keeps that it was
assumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.interp.state.values import ConstV, SymV, Value

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol

ASSUMED_SLOTS = 2


def computed(m: Machine, op: str, left: Value, right: Value) -> SymV | None:
    """``k % lanes`` of a known number, and ``(self.at + 1) % self.depth`` of what was such a rest before."""
    match left, right:
        case ConstV(int() as number), SymV(modulus) if op == "%" and not isinstance(number, bool):
            return _rest(m, number, modulus)
        case SymV(rest), SymV(modulus) if op == "%" and (known := m.rests.get(rest)) is not None:
            return _rest(m, known[0], modulus) if known[1] == modulus else None
        case SymV(rest), ConstV(int() as step) if op in "+-" and rest in m.rests:
            number, modulus = m.rests[rest]
            moved = symbols.Binary(op, rest, symbols.constant(step))
            m.rests[moved] = (number + step if op == "+" else number - step, modulus)
            return SymV(moved)
        case _:
            return None


def _rest(m: Machine, number: int, modulus: Symbol) -> SymV:
    made = symbols.Binary("%", symbols.constant(number), modulus)
    m.rests[made] = (number, modulus)
    return SymV(made)


def place(m: Machine, at: Value) -> int | None:
    """Which slot an index means that is such a rest."""
    known = m.rests.get(at.symbol) if isinstance(at, SymV) else None
    return known[0] % ASSUMED_SLOTS if known is not None else None


def slot(m: Machine, at: Value) -> Value:
    """The index of a ring, or of another list that goes along with it; other indices as they are."""
    number = place(m, at)
    if number is None or not isinstance(at, SymV):
        return at
    modulus = m.rests[at.symbol][1]
    told = f"{symbols.text_of(modulus)} is {ASSUMED_SLOTS}"
    m.oracle.choose(symbols.call("slots", modulus), told, options=1)
    return ConstV(number)
