"""Rings: ``ring[k % lanes]`` comes back to its first slot after ``lanes`` passes.

Where nothing says how many slots there are, and an index is a number that was reduced by an unknown one, the
ring is taken to have two: a program that is right for any number is right for two. A loop around the ring
says how many there are: ``for i in range(n): nodes[i].send(nodes[(i + 1) % n])``. Where the slots are
known and it is not known from which number a loop counts, as in
``for i in range(n - 1, -1, -1): ring[i % 2]``, ``n`` is taken for a multiple of them. The path keeps that it
was assumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import lengths, symbols
from streamlint.interp.state.numbers import behind, linear
from streamlint.interp.state.values import ConstV, SymV, Value

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol

ASSUMED_SLOTS = 2


def computed(m: Machine, op: str, left: Value, right: Value) -> Value | None:
    """``k % lanes`` of a known number, and ``(self.at + 1) % self.depth`` of what was such a rest before.

    ``slots[at % 2]`` of an ``at = (i + 1) % len(layers)``: who uses two slots in turn, all the way round, has
    an even number of layers. ``ready[i + depth]``: beside ``slots[i % depth]`` that is a number as ``i`` is.
    """
    match left, right:
        case ConstV(int() as number), SymV(modulus) if op in "+-*" and _is_ring(m, modulus):
            return _counted(op, number, _assumed(m, modulus))
        case SymV(modulus), ConstV(int() as number) if op in "+-*" and _is_ring(m, modulus):
            return _counted(op, _assumed(m, modulus), number)
        case ConstV(int() as number), SymV(modulus) if op == "%" and not isinstance(number, bool):
            return _rest(m, number, modulus)
        case SymV(number), SymV(modulus) if op == "%" and (far := _apart_from(number, modulus)) is not None:
            return _rest(m, far, modulus)
        case SymV(rest), SymV(modulus) if op == "%" and (known := m.numbers.rests.get(rest)) is not None:
            return _rest(m, known[0], modulus) if known[1] == modulus else None
        case SymV(rest), ConstV(int() as step) if op in "+-" and rest in m.numbers.rests:
            number, modulus = m.numbers.rests[rest]
            moved = symbols.Binary(op, rest, symbols.constant(step))
            m.numbers.rests[moved] = (number + step if op == "+" else number - step, modulus)
            return SymV(moved)
        case SymV(rest), ConstV(int() as slots) if op == "%" and rest in m.numbers.rests and slots > 0:
            number, modulus = m.numbers.rests[rest]
            assumed = f"{symbols.text_of(modulus)} is a multiple of {slots}"
            m.oracle.choose(symbols.call("multiple", modulus, symbols.constant(slots)), assumed, options=1)
            return ConstV(number % slots)
        case SymV(number), ConstV(int() as step) if op in "+-" and not isinstance(step, bool):
            base, far = linear(number)
            told = m.numbers.are_counted_from(base)
            return SymV(behind(base, far + (step if op == "+" else -step))) if told else None
        case _:
            return None


def _is_ring(m: Machine, modulus: Symbol) -> bool:
    return lengths.same(m, modulus) in m.numbers.slots


def _counted(op: str, left: int, right: int) -> ConstV:
    return ConstV(left + right if op == "+" else left - right if op == "-" else left * right)


def _apart_from(number: Symbol, modulus: Symbol) -> int | None:
    """What a number is but for the modulus in it: -1 of ``(i + n - 1) % n`` in the first pass."""
    match number:
        case symbols.Binary("+" | "-" as op, left, right):
            first, second = _apart_from(left, modulus), _apart_from(right, modulus)
            if first is None or second is None:
                return None
            return first + second if op == "+" else first - second
        case symbols.Const(kind, int() as known) if kind is int:
            return known
        case _:
            return 0 if number == modulus else None


def _rest(m: Machine, number: int, modulus: Symbol) -> SymV:
    lengths.settle(m, modulus)
    m.numbers.slots[lengths.same(m, modulus)] = slots = _slots(m, modulus)
    lengths.reach(m, slots + 1)
    made = symbols.Binary("%", symbols.constant(number), modulus)
    m.numbers.rests[made] = (number, modulus)
    return SymV(made)


def place(m: Machine, at: Value) -> int | None:
    """Which slot an index means that is such a rest."""
    known = m.numbers.rests.get(at.symbol) if isinstance(at, SymV) else None
    return known[0] % _slots(m, known[1]) if known is not None else None


def _slots(m: Machine, modulus: Symbol) -> int:
    """As many as a loop around the ring has passes; else two, or one if the path has told that before."""
    length = lengths.same(m, modulus)
    usual = 1 if m.numbers.most.get(length) == 1 else ASSUMED_SLOTS
    return m.numbers.settled.get(length, usual)


def among(m: Machine, at: Value, slots: int) -> Value:
    """The index of one of some known slots, counted from an unknown number; other indices as they are.

    Of numbers that nothing is known of, ``pages[layer & 1]`` and ``pages[(layer + 1) & 1]``, the first one
    may be even as well as odd. What a second one is then, nothing tells: ``pages[other & 1]``.
    """
    number, many = _reduced(at)
    if number is None or many > slots:
        return at
    base, far = linear(number)
    if not m.numbers.are_counted_from(base) and not _counts_alone(m, base, many):
        return at
    told = f"{symbols.text_of(base)} is a multiple of {many}"
    m.oracle.choose(symbols.call("rest", base, symbols.constant(many)), told, options=1)
    return ConstV(far % many)


def picked_by(m: Machine, at: Value) -> str:
    """What picks one of some slots, if that is a number of which nothing is known.

    It may be another slot than the one that is named elsewhere: ``pages[0]``.
    """
    number, many = _reduced(at)
    if number is None:
        return ""
    base, far = linear(number)
    told = not m.numbers.are_counted_from(base) and m.numbers.picks.get(many) == base
    return f"{symbols.text_of(base)} + {far % many}" if told else ""


def _reduced(at: Value) -> tuple[Symbol | None, int]:
    """``number`` and 4 of ``number % 4`` and of ``number & 3``."""
    match at:
        case SymV(symbols.Binary("%", number, by)):
            many = symbols.number(by)
        case SymV(symbols.Binary("&", number, by)):
            mask = symbols.number(by)
            many = mask + 1 if mask is not None and mask & (mask + 1) == 0 else None
        case _:
            return None, 0
    return (number, many) if many is not None and many > 1 else (None, 0)


def _counts_alone(m: Machine, base: Symbol, many: int) -> bool:
    """Whether it is the only number that nothing is known of by which the path picks one of so many slots."""
    return not symbols.has(base, symbols.Memory) and m.numbers.picks.setdefault(many, base) == base


def slot(m: Machine, at: Value) -> Value:
    """The index of a ring, or of another list that goes along with it; other indices as they are."""
    number = place(m, at)
    if number is None or not isinstance(at, SymV):
        return at
    _assumed(m, m.numbers.rests[at.symbol][1])
    return ConstV(number)


def _assumed(m: Machine, modulus: Symbol) -> int:
    """How many slots the path takes a ring to have, which it keeps as an assumption."""
    slots = _slots(m, modulus)
    m.oracle.choose(symbols.call("slots", modulus), f"{symbols.text_of(modulus)} is {slots}", options=1)
    return slots
