"""The schedule that the gate forces, as a picture: one lane for the host and for each stream.

What is drawn is the trace's prediction in the order of the racing run. Nobody measures when the
operations begin and end, so time runs to the right and has no scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from html import escape
from typing import TYPE_CHECKING, Final

from streamlint.graph.picture import picture
from streamlint.order.hb import HappensBefore, Verdict
from streamlint.trace import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.confirm.reproduce.slicing import Slice
    from streamlint.trace import OpId

_HOST: Final = "host"


class Part(Enum):
    """What a box stands for; the value is its class in the style sheet."""

    EARLIER = "earlier"
    LATER = "later"
    GATE = "gate"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Box:
    """Something on a lane, from the beginning of one column to the end of another."""

    lane: int
    first: int
    last: int
    title: str
    detail: str
    part: Part
    op: OpId | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """``links`` are waits, from the box of the record to that of the wait."""

    lanes: tuple[str, ...]
    boxes: tuple[Box, ...]
    links: tuple[tuple[int, int], ...]
    columns: int

    def of(self, part: Part) -> Box:
        return next(box for box in self.boxes if box.part is part)


def timeline(piece: Slice, gate: str) -> Timeline:
    """The racing run of a slice; ``gate`` is the text on the gate.

    All that does not wait for the earlier operation runs as issued, the later one among it. Then the
    gate ends.
    """
    order = HappensBefore(piece.trace)
    late = [i for i in piece.ops if i == piece.earlier or _after(order, piece.earlier, i)]
    early = [i for i in piece.ops if i not in late]
    drawn = {node.op: (column, node) for column in picture(piece.trace).columns for node in column.nodes}
    labels = {column.key: column.label for column, _ in drawn.values()}
    used = dict.fromkeys(drawn[i][0].key for i in piece.ops)
    keys = sorted({*used, _host_key(labels)})
    labels.setdefault(_host_key(labels), _HOST)
    before = sum(i < piece.earlier for i in early)
    boxes = [
        Box(
            keys.index(drawn[piece.earlier][0].key),
            before,
            len(early),
            gate,
            "the stream is held back",
            Part.GATE,
        )
    ]
    place: dict[OpId, int] = {}
    # The gate begins in a column of its own, after what was issued before it.
    numbered = [*enumerate(early[:before]), *enumerate(early[before:], before + 1)]
    numbered += enumerate(late, len(early) + 1)
    for column, number in numbered:
        node = drawn[number][1]
        title, _, detail = node.title.partition(": ")
        place[number] = len(boxes)
        part = {piece.earlier: Part.EARLIER, piece.later: Part.LATER}.get(number, Part.OTHER)
        text = f"line {node.line}" + (f", {detail}" if detail else "")
        if isinstance(piece.op(number), Wait) and order.record_seen_by(number) is None:
            text = f"line {node.line}, nothing was recorded"
        boxes.append(Box(keys.index(drawn[number][0].key), column, column, title, text, part, number))
    links = tuple(
        (place[record], place[number])
        for number in piece.ops
        if (record := order.record_seen_by(number)) is not None and record in place
    )
    return Timeline(tuple(labels[key] for key in keys), tuple(boxes), links, len(piece.ops) + 1)


def _after(order: HappensBefore, earlier: OpId, op: OpId) -> bool:
    return order.ordered(earlier, op).verdict is Verdict.YES


def _host_key(labels: dict[str, str]) -> str:
    return next((key for key, label in labels.items() if label == _HOST), "host0000")


# ----------------------------------------------------------------------------- SVG

_LABEL, _ROW, _HIGH, _GAP = 172, 74, 48, 14
_CHARACTER, _BOLD = 6.3, 7.9
_MOST = 34


def svg(drawn: Timeline) -> str:
    """An ``<svg>`` element; its colours come from the classes of the page's style sheet."""
    widths = [_width(drawn, column) for column in range(drawn.columns)]
    starts = [_LABEL + sum(widths[:n]) for n in range(drawn.columns + 1)]
    width, height = starts[-1] + 16, _ROW * len(drawn.lanes) + 30
    body = [
        *_lanes(drawn.lanes, width),
        *_issued(drawn, starts),
        *(line for box in drawn.boxes for line in _box(box, starts)),
        *(_link(drawn.boxes[a], drawn.boxes[b], starts) for a, b in drawn.links),
        *_race(drawn, starts),
        *_axis(len(drawn.lanes), width),
    ]
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    # Scaled down to the page, but not so far that it cannot be read.
    head = f'<svg class="timeline" role="img" {size} style="min-width: {width * 7 // 10}px">'
    title = f"<title>{escape(_story(drawn))}</title>"
    return "\n".join([head, title, *body, "</svg>"])


def _story(drawn: Timeline) -> str:
    earlier, later = drawn.of(Part.EARLIER), drawn.of(Part.LATER)
    return f"{later.title} ({later.detail}) runs while {earlier.title} ({earlier.detail}) is held back"


def _width(drawn: Timeline, column: int) -> int:
    widths = [
        width
        for box in drawn.boxes
        if box.first == box.last == column
        for width in (len(_short(box.title)) * _BOLD, len(_short(box.detail)) * _CHARACTER)
    ]
    return int(max(widths, default=60)) + 30 + _GAP


def _short(text: str) -> str:
    return text if len(text) <= _MOST else text[: _MOST - 3] + "..."


def _middle(lane: int) -> int:
    return lane * _ROW + _ROW // 2 + 4


def _lanes(lanes: Sequence[str], width: int) -> Iterator[str]:
    for number, label in enumerate(lanes):
        y = _middle(number)
        name, _, kind = label.partition(" (")
        yield f'<line class="lane" x1="{_LABEL - 12}" y1="{y}" x2="{width - 8}" y2="{y}"/>'
        yield f'<text class="name" x="4" y="{y - (2 if kind else -4)}">{escape(_fit(name, 24))}</text>'
        if kind:
            yield f'<text class="kind" x="4" y="{y + 14}">{escape(kind.rstrip(")"))}</text>'


def _issued(drawn: Timeline, starts: Sequence[int]) -> Iterator[str]:
    """When the host issues the two operations: the earlier one when its stream is held back already."""
    host = drawn.lanes.index(_HOST)
    for part, begin in ((Part.EARLIER, drawn.of(Part.GATE)), (Part.LATER, drawn.of(Part.LATER))):
        box = drawn.of(part)
        if box.lane == host:
            continue
        x, letter = starts[begin.first] + 24, "E" if part is Part.EARLIER else "L"
        yield f'<path class="issue" d="M{x} {_middle(host)} V{_middle(begin.lane)}"/>'
        yield f'<circle class="issue" cx="{x}" cy="{_middle(host)}" r="4"/>'
        yield f'<text class="kind" x="{x + 8}" y="{_middle(host) - 7}">issues {letter}</text>'


def _fit(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _box(box: Box, starts: Sequence[int]) -> Iterator[str]:
    x, y = starts[box.first], _middle(box.lane) - _HIGH // 2
    width = starts[box.last + 1] - x - _GAP
    hint = f"<title>{escape(f'{box.title}: {box.detail}')}</title>"
    yield f'<g class="{box.part.value}">{hint}'
    yield f'<rect x="{x}" y="{y}" width="{width}" height="{_HIGH}" rx="6"/>'
    if box.part in (Part.EARLIER, Part.LATER):
        letter = "E" if box.part is Part.EARLIER else "L"
        yield f'<circle cx="{x + 2}" cy="{y + 2}" r="10"/>'
        yield f'<text class="badge" x="{x + 2}" y="{y + 6}">{letter}</text>'
    inset = x + 14
    yield f'<text class="what" x="{inset}" y="{y + 20}">{escape(_short(box.title))}</text>'
    yield f'<text class="where" x="{inset}" y="{y + 37}">{escape(_short(box.detail))}</text></g>'


def _link(record: Box, wait: Box, starts: Sequence[int]) -> str:
    """Between the lanes first, so that it crosses no box on the record's own."""
    x1, x2 = (starts[record.first] + starts[record.last + 1] - _GAP) // 2, starts[wait.first]
    y2 = _middle(wait.lane)
    if record.lane == wait.lane:
        return f'<path class="wait" d="M{starts[record.last + 1] - _GAP} {y2} H{x2}"/>'
    y1 = _middle(record.lane) + (_HIGH // 2 if wait.lane > record.lane else -_HIGH // 2)
    return f'<path class="wait" d="M{x1} {y1} C{x1} {y2} {x1} {y2} {x2} {y2}"/>'


def _race(drawn: Timeline, starts: Sequence[int]) -> Iterator[str]:
    later, earlier = drawn.of(Part.LATER), drawn.of(Part.EARLIER)
    down = earlier.lane > later.lane
    x1 = (starts[later.first] + starts[later.last + 1] - _GAP) // 2
    x2 = starts[earlier.first] + 26
    y1 = _middle(later.lane) + (_HIGH // 2 if down else -_HIGH // 2)
    y2 = _middle(earlier.lane) + (-_HIGH // 2 if down else _HIGH // 2)
    middle = (y1 + y2) // 2
    yield f'<path class="race" d="M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2}"/>'


def _axis(lanes: int, width: int) -> Iterator[str]:
    y = _ROW * lanes + 14
    yield f'<path class="axis" d="M{_LABEL} {y} H{width - 16} m-6 -4 l6 4 l-6 4"/>'
    yield f'<text class="kind" x="4" y="{y + 4}">time, not to scale</text>'
