"""Parts of buffers: which places two accesses share."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import Enumeration, frozen

if TYPE_CHECKING:
    from collections.abc import Callable


@frozen()
class Interval:
    """Positions ``lo <= i < hi`` of one axis (elements statically, bytes in observed traces)."""

    lo: int
    hi: int


UNBOUNDED = 1 << 62
"""The upper end of an interval that reaches to the end of its axis."""


@frozen()
class Symbol:
    """A place on one axis known only by the expression that selects it, as in ``x[i]``.

    Equal symbols are the same place, different ones are not.
    """

    text: str
    far: int = 0
    """How far it is behind what the expression says: -1 of ``x[n - 1]``, where that is ``n``."""
    turn: int = 0
    """Which it is of several that the text stands for: 2 of ``x[rows[2]]``, 1 of ``x[2 * chunk]``."""
    behind: frozenset[str] = field(default=frozenset(), compare=False)
    """Expressions that the text is no less than: ``at + n`` of ``at + n + m``, where that are sizes."""


@frozen()
class SymbolSlice:
    """``x[a:b]`` with bounds known only by their expressions; ``None`` means from/to the end."""

    lo: Symbol | None
    hi: Symbol | None


@frozen()
class Shifted:
    """What a kernel works on from a place that numbers tell: ``x[first + i]``.

    It begins at the same place where the numbers are the same, and may share none where they are not.
    """

    by: str


@frozen()
class Rows:
    """What a copy with a pitch touches: ``width`` bytes of each of ``count`` rows, ``pitch`` bytes apart."""

    lo: int
    width: int
    pitch: int
    count: int

    def meets(self, part: Interval) -> bool:
        """Whether one of the rows has a byte of ``part``."""
        row = max(0, (part.lo - self.lo - self.width) // self.pitch + 1)
        return row < self.count and self.lo + row * self.pitch < part.hi

    def lies_over(self, other: Rows) -> bool:
        """Whether rows of one pitch share a column, and lie among each other."""
        behind = (other.lo - self.lo) % self.pitch
        same_columns = behind < self.width or self.pitch - behind < other.width
        return same_columns and self.meets(other.span) and other.meets(self.span)

    @property
    def span(self) -> Interval:
        """From the first row's beginning to the last one's end."""
        return Interval(self.lo, self.lo + self.pitch * (self.count - 1) + self.width)


@frozen()
class Picked:
    """Stands first: an expression of unknown value chooses the buffer among several, as in ``slots[k]``.

    It is the same one where the expression is the same, and may be another than any that is chosen otherwise.
    """

    by: str


Selector: TypeAlias = Interval | Rows | Symbol | SymbolSlice | Shifted | Picked
Region: TypeAlias = tuple[Selector, ...]
"""Selectors from the outermost axis inwards; the empty tuple is the whole buffer."""

WHOLE: Region = ()

NOTHING: Region = (Interval(0, 0),)
"""What a tensor of size 0 has: ``torch.empty(2, 0)``, ``x[:0]``."""


class Overlap(Enumeration):
    YES = "yes"
    NO = "no"
    MAYBE = "maybe"


def overlap(a: Region, b: Region) -> Overlap:
    """Whether two regions of one buffer share a place."""
    if NOTHING[0] in a or NOTHING[0] in b:
        return Overlap.NO
    answer = Overlap.YES
    if _picked(a) != _picked(b):
        answer, a, b = Overlap.MAYBE, _places(a), _places(b)
    for axis, (left, right) in enumerate(zip(a, b, strict=False), 1):
        match _overlap_axis(left, right):
            case Overlap.NO:
                return Overlap.NO
            case Overlap.MAYBE:
                answer = Overlap.MAYBE
            case Overlap.YES if _is_part_of_shifted(left, right, a[axis:], b[axis:]):
                answer = Overlap.MAYBE
            case Overlap.YES:
                pass
    return answer


def _is_part_of_shifted(left: Selector, right: Selector, a: Region, b: Region) -> bool:
    """Whether a part of what starts at an address is compared with bytes that start there, too.

    ``view = (c_ubyte * n).from_address(base)``: ``view[4096:8192]``, and a copy of 4096 bytes from ``base``.
    """
    if isinstance(left, Shifted) and isinstance(right, Interval):
        return bool(a)
    return isinstance(left, Interval) and isinstance(right, Shifted) and bool(b)


def _picked(region: Region) -> Selector | None:
    return region[0] if region and isinstance(region[0], Picked) else None


def _places(region: Region) -> Region:
    return region[1:] if _picked(region) is not None else region


def _overlap_axis(a: Selector, b: Selector) -> Overlap:
    if a == b:
        return Overlap.YES
    match a, b:
        case (SymbolSlice(None, None), _) | (_, SymbolSlice(None, None)):
            return Overlap.YES
        case Interval(), Interval():
            return Overlap.YES if a.lo < b.hi and b.lo < a.hi else Overlap.NO
        case (Rows() as rows, Interval() as part) | (Interval() as part, Rows() as rows):
            return Overlap.YES if rows.meets(part) else Overlap.NO
        case Rows(), Rows() if a.pitch == b.pitch:
            return Overlap.YES if a.lies_over(b) else Overlap.NO
        case (Shifted(by), (Interval() | Rows()) as fixed) | ((Interval() | Rows()) as fixed, Shifted(by)):
            return Overlap.YES if by == str(fixed.lo) else Overlap.MAYBE
        case Symbol(), Symbol():
            return Overlap.NO
        case SymbolSlice(), SymbolSlice():
            return _overlap_slices(a, b)
        case (SymbolSlice() as part, Symbol() as place) | (Symbol() as place, SymbolSlice() as part):
            return _lies_in(place, part)
        case (SymbolSlice() as part, Interval() as fixed) | (Interval() as fixed, SymbolSlice() as part):
            # x[0] lies in x[:n] for every n that makes the slice worth taking.
            return Overlap.YES if part.lo is None and fixed.lo == 0 else Overlap.MAYBE
        case _:
            return Overlap.MAYBE


def _overlap_slices(a: SymbolSlice, b: SymbolSlice) -> Overlap:
    # x[:n] and x[:m] share their start, x[a:] and x[b:] their end.
    if (a.lo is None and b.lo is None) or (a.hi is None and b.hi is None):
        return Overlap.YES
    # x[:n] and x[n:] touch but do not overlap.
    before, behind = _ends_behind(a, b), _ends_behind(b, a)
    if before is False or behind is False:
        return Overlap.NO
    return Overlap.YES if a.lo == b.lo or (before and behind) else Overlap.MAYBE


def _ends_behind(a: SymbolSlice, b: SymbolSlice) -> bool | None:
    """Whether a slice ends behind the beginning of another one; None where nothing tells it.

    Numbers that bound slices go up: ``out[ends[0] : ends[1]]`` lies before ``out[ends[2] : ends[3]]``, and
    ``page[at : at + n]`` before what begins at ``at + (n + 63) // 64 * 64``.
    """
    if a.hi is None or b.lo is None:
        return True
    if a.hi.text in b.lo.behind and a.hi.far <= b.lo.far:
        return False
    if a.hi.text != b.lo.text:
        return None
    if a.hi.turn == b.lo.turn:
        return a.hi.far > b.lo.far
    return False if a.hi.turn < b.lo.turn and a.hi.far <= b.lo.far else None


def _lies_in(place: Symbol, part: SymbolSlice) -> Overlap:
    """``x[n - 1]`` lies in ``x[:n]``, ``x[n]`` behind it."""
    after = _is_known(part.lo, place, lambda lo: lo <= place.far)
    before = _is_known(part.hi, place, lambda hi: place.far < hi)
    if after is False or before is False:
        return Overlap.NO
    return Overlap.YES if after and before else Overlap.MAYBE


def _is_known(bound: Symbol | None, place: Symbol, holds: Callable[[int], bool]) -> bool | None:
    """What is asked of a bound; None where that stands for another expression than the place."""
    if bound is None:
        return True
    return holds(bound.far) if (bound.text, bound.turn) == (place.text, place.turn) else None


def covers(a: Region, b: Region) -> bool:
    """Whether ``a`` surely contains all of ``b``."""
    if len(a) > len(b):
        return False
    for outer, inner in zip(a, b, strict=False):
        if outer == inner:
            continue
        if not (isinstance(outer, Interval) and isinstance(inner, Interval)):
            return False
        if not (outer.lo <= inner.lo and inner.hi <= outer.hi):
            return False
    return True
