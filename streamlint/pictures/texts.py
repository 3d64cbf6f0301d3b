"""Texts that must fit: how wide they are about, shortened in the middle, broken into lines.

No font is at hand. Widths are those of DejaVu, which is wider than what browsers use.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final, TypeAlias

from streamlint.characters import width
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator


@frozen()
class Font:
    size: float
    fixed: bool


CODE: Final = Font(12.5, fixed=True)
SMALL: Final = Font(12, fixed=False)
TITLE: Final = Font(15, fixed=False)

_FIXED = 0.603
_NARROW, _WIDE = frozenset(" .,:;'|!ijlI()[]f`"), frozenset("mwMW@%")
_MARK = "…"


@frozen()
class Piece:
    """A stretch of text; ``code`` was between backticks."""

    text: str
    code: bool = False


Line: TypeAlias = tuple[Piece, ...]


def measure(text: str, font: Font) -> float:
    """About how wide a text is; what stands between backticks is in the font of code."""
    return sum(_wide(piece, font) for piece in pieces(text))


def _wide(piece: Piece, font: Font) -> float:
    if font.fixed or piece.code:
        return sum(map(width, piece.text)) * font.size * _FIXED
    return sum(map(_share, piece.text)) * font.size


def _share(char: str) -> float:
    if char in _NARROW:
        return 0.38
    if char in _WIDE:
        return 0.96
    return 1.05 if width(char) > 1 else 0.7 if char.isupper() else 0.62


def pieces(text: str) -> Line:
    parts = text.split("`")
    return tuple(Piece(part, bool(odd % 2)) for odd, part in enumerate(parts) if part)


def shortened_code(text: str, room: float) -> str:
    """An expression without what it is called with, if it is too wide, and then without what it is called on.

    ``self.layers["tokens"].forward(batch.view(-1))`` becomes ``self.layers["tokens"].forward(batch…)``, or
    ``….forward(…)``. What is still too wide loses its middle.
    """
    folded = text
    while not _fits(folded, room) and (group := _longest_group(folded)) is not None:
        folded = _folded(folded, group, room)
    if _fits(folded, room):
        return folded
    outside = [place for place, depth in _depths(folded) if not depth]
    chain = next((place for place in outside if folded[place] == " "), len(folded))
    without = (f"{_MARK}{folded[place:]}" for place in outside if folded[place] == "." and place < chain)
    return next((each for each in without if _fits(each, room)), shortened(folded, CODE, room))


def _fits(text: str, room: float) -> bool:
    return _wide(Piece(text), CODE) <= room


def _folded(text: str, group: tuple[int, int], room: float) -> str:
    """The text with as much of a group as there is room for."""
    begin, end = group
    texts = (f"{text[:kept].rstrip()}{_MARK}{text[end:]}" for kept in range(end - 1, begin - 1, -1))
    return next((each for each in texts if _fits(each, room)), f"{text[:begin]}{_MARK}{text[end:]}")


def _longest_group(text: str) -> tuple[int, int] | None:
    """The inside of the longest pair of brackets that stands in no other."""
    begins = [place for place, depth in _depths(text) if depth == 1 and text[place] in "([{"]
    ends = [place for place, depth in _depths(text) if depth == 1 and text[place] in ")]}"]
    groups = [(begin + 1, end) for begin, end in zip(begins, ends, strict=False) if end - begin > 2]
    return max(groups, key=lambda group: group[1] - group[0], default=None)


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """The places outside of quotes, and in how many brackets each stands, which are in themselves."""
    depth, quote = 0, ""
    for place, char in enumerate(text):
        if quote or char in "'\"":
            quote = "" if char == quote else quote or char
            continue
        depth += char in "([{"
        yield place, depth
        depth -= char in ")]}"


def shortened(text: str, font: Font, room: float) -> str:
    """A text without its middle, if it is too wide: both ends of an expression tell which one it is."""
    if _wide(Piece(text), font) <= room:
        return text
    keep = len(text) - 1
    while keep > 2 and _wide(Piece(_without_middle(text, keep)), font) > room:
        keep -= 1
    return _without_middle(text, keep)


def _without_middle(text: str, keep: int) -> str:
    head = (keep + 1) * 3 // 5
    return f"{text[:head].rstrip()}{_MARK}{text[len(text) - (keep - head) :].lstrip()}"


def lines_of(text: str, font: Font, room: float, most: int) -> tuple[Line, ...]:
    """A text broken between words into ``most`` lines at most; the last has a mark if there is more."""
    words = [Piece(word, piece.code) for piece in pieces(text) for word in _words(piece)]
    lines: list[list[Piece]] = [[]]
    for word in words:
        fitting = _fitting(word, font, room)
        if lines[-1] and sum(_wide(each, font) for each in (*lines[-1], fitting)) > room:
            lines.append([])
        if lines[-1] or fitting.text.strip():
            lines[-1].append(fitting)
    if len(lines) > most:
        lines = [*lines[: most - 1], [*_room_for_mark(lines[most - 1], font, room), Piece(_MARK)]]
    return tuple(_joined(line) for line in lines if line)


def _joined(line: list[Piece]) -> Line:
    """A line with words of one font in one piece."""
    runs = itertools.groupby(line, key=lambda piece: piece.code)
    return tuple(Piece("".join(piece.text for piece in run), code) for code, run in runs)


def _room_for_mark(line: list[Piece], font: Font, room: float) -> list[Piece]:
    kept = list(line)
    while len(kept) > 1 and sum(_wide(each, font) for each in (*kept, Piece(_MARK))) > room:
        kept.pop()
    return kept


def _fitting(word: Piece, font: Font, room: float) -> Piece:
    return Piece(shortened(word.text, Font(font.size, font.fixed or word.code), room), word.code)


def _words(piece: Piece) -> list[str]:
    """Words and the blanks between them; names in code stay whole."""
    return [piece.text] if piece.code else [part for part in re.split("( )", piece.text) if part]
