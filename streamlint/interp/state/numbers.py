"""What a path knows of numbers that no text tells: ``n`` of ``for i in range(n - 1, -1, -1)``."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.frozen import frozen
from streamlint.interp.state import symbols

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span


LARGEST_RING = 4
"""What goes around more slots is not followed until it comes back: ``step % 10 == 0`` asks for none."""


@frozen()
class Counted:
    """What a test was asked of the last time: a number that may be counted on, and its answer."""

    number: int
    answer: bool
    later: bool = False
    """Whether the path has chosen between this answer and that of a later pass."""


@dataclass(slots=True)
class Numbers:
    rests: dict[Symbol, tuple[int, Symbol]] = field(default_factory=dict)
    """Numbers reduced by an unknown one, by the result, and what that is: ``k % lanes``."""
    counts: dict[Symbol, int] = field(default_factory=dict)
    """What is known of the ends of ranges: see ``state/counted.py``."""
    least: dict[Symbol, int] = field(default_factory=dict)
    """How many elements there are at least of what loops walk: see ``state/lengths.py`` ..."""
    most: dict[Symbol, int] = field(default_factory=dict)
    """... at most ..."""
    walked: dict[Symbol, bool] = field(default_factory=dict)
    """... and which of these loops run now, and whether they make more passes in any case."""
    limits: dict[Symbol, Symbol] = field(default_factory=dict)
    """Numbers that lengths do not exceed: ``depth`` of ``islice(pages, depth)``."""
    passes: dict[Symbol, int] = field(default_factory=dict)
    """How many elements there are if these loops make no more passes than they have to."""
    slots: dict[Symbol, int] = field(default_factory=dict)
    """How many slots rings are taken to have, by the number that says so."""
    settled: dict[Symbol, int] = field(default_factory=dict)
    """How many there are of what a ring has: the passes of the loop around it."""
    alike: dict[Symbol, Symbol] = field(default_factory=dict)
    """Lengths that are another number: ``len(nodes)`` of ``nodes = [Node() for _ in range(n)]``."""
    starts: set[Symbol] = field(default_factory=set)
    """From which loops count, so that they are numbers: ``n`` of ``range(n - 1, -1, -1)``."""
    strides: set[Symbol] = field(default_factory=set)
    """By which loops go on: see ``state/strides.py`` ..."""
    ends: set[Symbol] = field(default_factory=set)
    """... and up to which they go by more than 1 at a time."""
    rounds: dict[Span, Counted] = field(default_factory=dict)
    """Tests of what a number leaves, ``step % 10 == 0``: see ``python/later_passes.py``."""
    halves: dict[tuple[int, Symbol], int] = field(default_factory=dict)
    """Lists of the first so many elements of another one, by that and the number: ``pool[:n]``."""
    taken: dict[Symbol, int] = field(default_factory=dict)
    """How many elements were taken out of lists of unknown length: see ``state/emptied.py`` ..."""
    fillings: dict[Symbol, int] = field(default_factory=dict)
    """... and how often more was put there since."""
    around: int = 0
    """The slots of the largest ring around which the open loops go: 3 of ``self.at = (self.at + 1) % 3``."""
    picks: dict[int, Symbol] = field(default_factory=dict)
    """The number that picks one of so many slots, and of which nothing is known: ``pages[layer % 2]``."""

    def goes_around(self, op: str, by: object) -> None:
        """A number is reduced by a known one, which may be that of slots."""
        if op == "%" and isinstance(by, int) and by <= LARGEST_RING:
            self.around = max(self.around, by)

    def are_counted_from(self, base: Symbol) -> bool:
        """Whether it is a number, and ``base - 1`` too: of something else it may be a tensor."""
        return base in self.starts or (isinstance(base, symbols.Call) and symbols.last_called(base) == "len")


ARITHMETIC: dict[str, Callable[[object, object], object]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "/": operator.truediv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "**": operator.pow,
}
_EXACT = frozenset({"+", "-", "*", "%", "//", "&", "^"})
"""What two whole numbers give that is one, and not much longer than they are."""


def computed(op: str, left: Symbol, right: Symbol) -> Symbol:
    """``i % 2``, a number where ``i`` is one."""
    match left, right:
        case symbols.Const(first, int() as a), symbols.Const(second, int() as b) if (
            first is second is int and op in _EXACT and (b or op not in ("%", "//"))
        ):
            made = ARITHMETIC[op](a, b)
            assert isinstance(made, int)
            return symbols.constant(made)
        case _:
            return symbols.Binary(op, left, right)


def linear(symbol: Symbol) -> tuple[Symbol, int]:
    """What a number is counted from, and how far it is behind that: -3 and ``n`` of ``n - 1 - 2``."""
    far = 0
    while isinstance(symbol, symbols.Binary) and symbol.op in ("+", "-"):
        step = symbols.number(symbol.right)
        if step is None:
            break
        far += step if symbol.op == "+" else -step
        symbol = symbol.left
    return symbol, far


def passed(symbol: Symbol) -> Iterator[Symbol]:
    """What a running number is no less than: ``at + n`` and ``at + n + m`` of ``at + n + m + k``.

    ``page[at : at + n]``, and then ``at += n``, or ``at += (n + 63) // 64 * 64``: how much a part takes is no
    less than 0.
    """
    while isinstance(symbol, symbols.Binary) and symbol.op == "+":
        size = _rounded(symbol.right)
        if size is not None:
            yield symbols.Binary("+", symbol.left, size)
        symbol = symbol.left


def _rounded(symbol: Symbol) -> Symbol | None:
    """The number that another one is no less than, if it is that number or a multiple of something above.

    ``(n + 63) // 64 * 64``, ``(n + 63) & ~63``, ``-(-n // 64) * 64``.
    """
    match symbol:
        case symbols.Binary("*", symbols.Binary("//", symbols.Binary("+", size, rest), unit), by):
            return size if by is unit and _is_one_less(rest, unit) else None
        case symbols.Binary("&", symbols.Binary("+", size, rest), symbols.Unary("~", by)):
            return size if by is rest else None
        case symbols.Binary("*", symbols.Unary("-", symbols.Binary("//", left, unit)), by):
            return left.of if by is unit and isinstance(left, symbols.Unary) and left.op == "-" else None
        case symbols.Binary("+", size, symbols.Const(_, int(rest))) if rest >= 0:
            return _rounded(size)
        case symbols.Binary("-" | "//" | "%" | "*" | "/"):
            return None
        case _:
            return symbol


def _is_one_less(number: Symbol, than: Symbol) -> bool:
    """``63`` and ``64``, ``unit - 1`` and ``unit``."""
    base, far = linear(number)
    known, whole = symbols.number(base), symbols.number(than)
    return known + far == whole - 1 if known is not None and whole is not None else base is than and far == -1


def behind(base: Symbol, far: int) -> Symbol:
    """The number so far behind another one: ``n - 3``, however code comes to it."""
    if not far:
        return base
    return symbols.Binary("+" if far > 0 else "-", base, symbols.constant(abs(far)))
