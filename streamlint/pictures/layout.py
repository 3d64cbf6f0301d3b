"""Where everything of a picture stands, in pixels.

Lanes are columns with gaps between them, operations are cards in rows: the row is the time at which the host
issues them. No two cards share a row, so a line along a row meets no other card, and a line along a gap none
at all: arrows leave a card sideways, go down in a gap, and enter the other card sideways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import frozen
from streamlint.pictures.model import Arrow, Missing
from streamlint.pictures.texts import CODE, SMALL, Line, lines_of, measure, shortened_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.pictures.model import Operation, Picture

MARGIN = 20
NARROWEST, WIDEST = 150, 340
PADDING = 12
LINE = 18
BETWEEN = 16
GAP, TRACK, SIGN = 26, 14, 104
"""A gap between lanes, each line in it, and the room for the words at a missing edge."""
BREAK = 34
HEAD = 52


@frozen()
class Card:
    x: float
    y: float
    width: float
    height: float
    code: str
    effect: tuple[Line, ...]

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@frozen()
class Way:
    """The line of an arrow: out of a card at ``x1, y1``, down at ``x``, and into the other at ``x2, y2``."""

    x1: float
    y1: float
    x: float
    y2: float
    x2: float


@frozen()
class Layout:
    width: float
    lanes: tuple[tuple[float, float], ...]
    """The left end and the width of each lane."""
    top: float
    """Where the names of the lanes stand."""
    bottom: float
    """Below the last card."""
    places: float
    """The right end of the line numbers."""
    cards: tuple[Card, ...]
    arrows: tuple[Way, ...]
    missing: tuple[Way, ...]
    breaks: tuple[float, ...]


def laid_out(picture: Picture, top: float) -> Layout:
    """Lay a picture out below ``top``."""
    widths = [_lane_width(picture, lane) for lane in range(len(picture.lanes))]
    tracks = _tracks(picture)
    gaps = [_gap(picture, tracks, gap) for gap in range(len(widths) + 1)]
    places = MARGIN + max((measure(each.place, SMALL) for each in picture.operations), default=0)
    between, lefts, x = [], [], places + 10
    for gap, width in zip(gaps, [*widths, 0], strict=True):
        between.append(x)
        x += gap
        lefts.append(x)
        x += width
    lanes = tuple(zip(lefts, widths, strict=False))
    cards, breaks, bottom = _cards(picture, lanes, top + HEAD)
    ports = _Ports()
    ways = []
    for link, (gap, track) in zip(_links(picture), tracks, strict=True):
        # The missing edges come first in a gap, with their words around them.
        sign = _sign(picture, gap) / (2 if isinstance(link, Missing) else 1)
        x_of_line = between[gap] + GAP / 2 + sign + track * TRACK
        ways.append(_way(picture, cards, link, ports, x_of_line))
    cut = len(picture.missing)
    return Layout(
        width=x + MARGIN,
        lanes=lanes,
        top=top,
        bottom=bottom,
        places=places,
        cards=cards,
        arrows=tuple(ways[cut:]),
        missing=tuple(ways[:cut]),
        breaks=breaks,
    )


# ----------------------------------------------------------------------------- cards


def _lane_width(picture: Picture, lane: int) -> float:
    texts = [measure(picture.lanes[lane].name, CODE), measure(picture.lanes[lane].kind, SMALL)]
    for each in picture.operations:
        if each.lane == lane:
            texts += [measure(each.code, CODE), min(measure(each.effect, SMALL), 250)]
    return min(max(NARROWEST, *(text + 2 * PADDING + 4 for text in texts)), WIDEST)


def _cards(
    picture: Picture, lanes: Sequence[tuple[float, float]], top: float
) -> tuple[tuple[Card, ...], tuple[float, ...], float]:
    """The cards, the places of the breaks, and the lower end. A held stretch ends below its last row."""
    texts = [_texts(each, lanes[each.lane][1] - 2 * PADDING) for each in picture.operations]
    rows = sorted({each.row for each in picture.operations} | {each.last for each in picture.operations})
    starts: dict[int, float] = {}
    ends: dict[int, float] = {}
    above = {each.row for each in picture.breaks}
    breaks = []
    y = top
    for row in rows:
        if row in above:
            breaks.append(y + BREAK / 2 - 4)
            y += BREAK
        here = [n for n, each in enumerate(picture.operations) if each.row == row == each.last]
        height = max((_height(texts[n]) for n in here), default=LINE)
        starts[row], ends[row] = y, y + height
        y += height + BETWEEN
    cards = []
    for each, (code, effect) in zip(picture.operations, texts, strict=True):
        x, width = lanes[each.lane]
        begin, end = starts[each.row], ends[each.last]
        cards.append(Card(x, begin, width, end - begin, code, effect))
    return tuple(cards), tuple(breaks), y - BETWEEN


def _texts(each: Operation, room: float) -> tuple[str, tuple[Line, ...]]:
    return shortened_code(each.code, room), lines_of(each.effect, SMALL, room, 2)


def _height(texts: tuple[str, tuple[Line, ...]]) -> float:
    return LINE * (1 + len(texts[1])) + 12


# ----------------------------------------------------------------------------- lines


def _links(picture: Picture) -> list[Arrow | Missing]:
    return [*picture.missing, *picture.arrows]


class _Ports:
    """Lines that enter or leave a card on one side, apart from each other."""

    def __init__(self) -> None:
        self._count: dict[tuple[int, bool], int] = {}

    def offset(self, operation: int, on_the_left: bool) -> float:
        number = self._count.get((operation, on_the_left), 0)
        self._count[operation, on_the_left] = number + 1
        return (0, 10, -10, 16, -16)[number % 5]


def _gap_of(picture: Picture, link: Arrow | Missing) -> int:
    """The gap in which a line goes down: beside the earlier lane, towards the later one.

    Gap ``n`` is left of lane ``n``.
    """
    first, second = picture.operations[link.earlier].lane, picture.operations[link.later].lane
    return first if second < first else first + 1


def _tracks(picture: Picture) -> list[tuple[int, int]]:
    """The gap and the track in it of each line: lines whose rows overlap have different tracks."""
    found: list[tuple[int, int]] = []
    taken: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for link in _links(picture):
        rows = tuple(sorted((picture.operations[link.earlier].row, picture.operations[link.later].row)))
        gap, track = _gap_of(picture, link), 0
        while any(low <= rows[1] and rows[0] <= high for low, high in taken.get((gap, track), ())):
            track += 1
        taken.setdefault((gap, track), []).append((rows[0], rows[1]))
        found.append((gap, track))
    return found


def _gap(picture: Picture, tracks: Sequence[tuple[int, int]], gap: int) -> float:
    """How wide a gap is: with room for its lines, and for the words at a missing edge."""
    count = max((track + 1 for where, track in tracks if where == gap), default=0)
    if not count:
        return 0 if gap in (0, len(picture.lanes)) else GAP
    return GAP + TRACK * (count - 1) + _sign(picture, gap)


def _sign(picture: Picture, gap: int) -> float:
    return SIGN if any(_gap_of(picture, link) == gap for link in picture.missing) else 0


def _way(picture: Picture, cards: Sequence[Card], link: Arrow | Missing, ports: _Ports, x: float) -> Way:
    gap = _gap_of(picture, link)
    one, two = cards[link.earlier], cards[link.later]
    out_left = gap <= picture.operations[link.earlier].lane
    into_left = gap > picture.operations[link.later].lane
    return Way(
        x1=one.x if out_left else one.x + one.width,
        y1=one.middle + ports.offset(link.earlier, out_left),
        x=x,
        y2=two.middle + ports.offset(link.later, not into_left),
        x2=two.x + two.width if into_left else two.x,
    )
