"""Pictures as SVG, for light and dark pages, in a file of its own or inside of an HTML page.

Colours are never the only sign: an edge that is missing is broken and crossed out, what callers only issue is
thin, what may wait is dotted, and what nothing orders has a letter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from streamlint.characters import for_xml
from streamlint.pictures.colors import Scheme, sheet
from streamlint.pictures.layout import LINE, MARGIN, PADDING, laid_out
from streamlint.pictures.model import Fault, How
from streamlint.pictures.texts import SMALL, TITLE, Piece, lines_of, measure, pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.pictures.layout import Card, Layout, Way
    from streamlint.pictures.model import Lane, Operation, Picture
    from streamlint.pictures.texts import Line

_LEAST = 560
"""A picture is at least this wide: its title needs room."""
_SAMPLE = 34
_NAMESPACE = "http://www.w3.org/2000/svg"


def render(picture: Picture, scheme: Scheme = Scheme.BOTH) -> str:
    """A file of its own, with its title and its colours."""
    root = _drawn(picture, titled=True)
    style = ET.Element("style")
    style.text = sheet(scheme)
    root.insert(0, style)
    return f"{ET.tostring(root, encoding='unicode')}\n"


def element(picture: Picture) -> str:
    """An element of an HTML page that has ``sheet(Scheme.BOTH)`` among its styles, and tells the title."""
    root = _drawn(picture, titled=False)
    del root.attrib["xmlns"]
    return ET.tostring(root, encoding="unicode")


def _drawn(picture: Picture, *, titled: bool) -> ET.Element:
    width = max(laid_out(picture, 0).width, _LEAST)
    title, top = _title(picture, width) if titled else ([], 12.0)
    layout = laid_out(picture, top)
    legend, height = _legend(picture, layout.bottom + 34, width)
    size = {"viewBox": f"0 0 {_n(width)} {_n(height)}", "width": _n(width), "height": _n(height)}
    root = ET.Element("svg", {"xmlns": _NAMESPACE, "class": "picture", "role": "img", **size})
    ET.SubElement(root, "title").text = for_xml(picture.title.replace("`", ""))
    root.append(_rect("page", 0, 0, width, height, 10))
    for shape in (
        *title,
        *_lanes(picture.lanes, layout),
        *_arrows(picture, layout),
        *_breaks(picture, layout, width),
        *(_card(each, card) for each, card in zip(picture.operations, layout.cards, strict=True)),
        *_places(picture.operations, layout),
        *_signs(picture, layout),
        *legend,
    ):
        root.append(shape)
    return root


# ----------------------------------------------------------------------------- around the lanes


def _title(picture: Picture, width: float) -> tuple[list[ET.Element], float]:
    room = width - 2 * MARGIN
    y, shapes = MARGIN + 14.0, []
    for line in lines_of(picture.title, TITLE, room, 3):
        shapes.append(_text("title", MARGIN, y, line))
        y += 22
    for line in lines_of(picture.subtitle, SMALL, room, 2):
        shapes.append(_text("muted", MARGIN, y, line))
        y += LINE
    return shapes, y + 8


def _lanes(lanes: Sequence[Lane], layout: Layout) -> Iterator[ET.Element]:
    for lane, (x, width) in zip(lanes, layout.lanes, strict=True):
        middle = x + width / 2
        yield _rect("head", x, layout.top, width, 40, 6)
        first = 17 if lane.kind else 25
        yield _text("name", middle, layout.top + first, pieces(lane.name), anchor="middle")
        if lane.kind:
            yield _text("kind", middle, layout.top + 33, pieces(lane.kind), anchor="middle")
        yield _path("lane", f"M{_n(middle)} {_n(layout.top + 40)}V{_n(layout.bottom + 12)}")
        yield _head("lane-end", middle, layout.bottom + 12, "down")


def _breaks(picture: Picture, layout: Layout, width: float) -> Iterator[ET.Element]:
    for each, y in zip(picture.breaks, layout.breaks, strict=True):
        yield _path("break", f"M{MARGIN} {_n(y)}H{_n(width - MARGIN)}")
        wide = measure(each.text, SMALL) + 16
        yield _rect("page", MARGIN + 10, y - 10, wide, 20, 0)
        yield _text("muted", MARGIN + 18, y + 4, pieces(each.text))


def _places(operations: Sequence[Operation], layout: Layout) -> Iterator[ET.Element]:
    for each, card in zip(operations, layout.cards, strict=True):
        if each.place:
            yield _text("place", layout.places, card.y + 20, pieces(each.place), anchor="end")


def _legend(picture: Picture, y: float, width: float) -> tuple[list[ET.Element], float]:
    """What the lines mean that are there, and the notes; with the height of the picture."""
    shapes: list[ET.Element] = []
    x: float = MARGIN
    used = {arrow.how for arrow in picture.arrows}
    kinds: list[How | None] = [None, *(how for how in How if how in used)]
    for how in kinds:
        text = "one after the other in a lane" if how is None else how.value
        wide = _SAMPLE + 8 + measure(text, SMALL) + 22
        if x > MARGIN and x + wide > width - MARGIN:
            x, y = MARGIN, y + LINE + 2
        shapes += _sample(x, y - 4, how)
        shapes.append(_text("muted", x + _SAMPLE + 8, y, pieces(text)))
        x += wide
    for note in picture.notes:
        for line in lines_of(note, SMALL, width - 2 * MARGIN, 3):
            y += LINE + 2
            shapes.append(_text("muted", MARGIN, y, line))
    return shapes, y + 18


def _sample(x: float, y: float, how: How | None) -> Iterator[ET.Element]:
    if how is None:
        yield _path("lane", f"M{_n(x)} {_n(y)}h{_SAMPLE}")
        yield _head("lane-end", x + _SAMPLE, y, "right")
        return
    yield _path(CLASSES[how], f"M{_n(x)} {_n(y)}h{_SAMPLE - 4}")
    yield _head(f"{CLASSES[how]}-end", x + _SAMPLE, y, "right")


# ----------------------------------------------------------------------------- cards


def _card(each: Operation, card: Card) -> ET.Element:
    group = ET.Element("g", {"class": each.part.value})
    ET.SubElement(group, "title").text = for_xml(each.hint)
    group.append(_rect("card", card.x, card.y, card.width, card.height, 6))
    x, y = card.x + PADDING, card.y + 20
    group.append(_text("code", x, y, (Piece(card.code),)))
    for line in card.effect:
        y += LINE
        group.append(_text("effect", x, y, line))
    if each.letter:
        group.append(ET.Element("circle", {"class": "badge", "cx": _n(card.x), "cy": _n(card.y), "r": "11"}))
        group.append(_text("letter", card.x, card.y + 5, pieces(each.letter), anchor="middle"))
    return group


# ----------------------------------------------------------------------------- lines

CLASSES = {How.WAITS: "waits", How.ISSUED: "issued", How.MAYBE: "maybe"}


def _arrows(picture: Picture, layout: Layout) -> Iterator[ET.Element]:
    for way, arrow in zip(layout.arrows, picture.arrows, strict=True):
        yield from _arrow(way, CLASSES[arrow.how])
    for way, edge in zip(layout.missing, picture.missing, strict=True):
        yield from _arrow(way, "missing")
        if edge.fault is Fault.CIRCLE:
            yield _head("missing-end", way.x1, way.y1, "right" if way.x < way.x1 else "left")


def _arrow(way: Way, name: str) -> Iterator[ET.Element]:
    yield _path(name, _line(way))
    yield _head(f"{name}-end", way.x2, way.y2, "right" if way.x < way.x2 else "left")


def _signs(picture: Picture, layout: Layout) -> Iterator[ET.Element]:
    """The cross and the words in the middle of each missing edge."""
    for way, edge in zip(layout.missing, picture.missing, strict=True):
        x, y = way.x, (way.y1 + way.y2) / 2
        yield _rect("sign", x - 46, y - 11, 92, 22, 11)
        if edge.fault is not Fault.CIRCLE:
            yield _path("cross", f"M{_n(x - 36)} {_n(y - 4)}l8 8m0 -8l-8 8")
        middle = x if edge.fault is Fault.CIRCLE else x + 8
        yield _text("sign-text", middle, y + 4, pieces(edge.fault.value), anchor="middle")


def _line(way: Way) -> str:
    """With round corners, and short of the head of the arrow."""
    end = way.x2 - 7 if way.x < way.x2 else way.x2 + 7
    first, second = _toward(way.x1, way.x), _toward(way.x, end)
    down = 1 if way.y2 >= way.y1 else -1
    bend = min(6.0, abs(way.y2 - way.y1) / 2, abs(way.x - way.x1), abs(end - way.x))
    return (
        f"M{_n(way.x1)} {_n(way.y1)}H{_n(way.x - first * bend)}"
        f"q{_n(first * bend)} 0 {_n(first * bend)} {_n(down * bend)}V{_n(way.y2 - down * bend)}"
        f"q0 {_n(down * bend)} {_n(second * bend)} {_n(down * bend)}H{_n(end)}"
    )


def _toward(here: float, there: float) -> int:
    return 1 if there >= here else -1


# ----------------------------------------------------------------------------- shapes


def _rect(name: str, x: float, y: float, width: float, height: float, round_: float) -> ET.Element:
    numbers = {"x": x, "y": y, "width": width, "height": height, "rx": round_}
    return ET.Element("rect", {"class": name, **{key: _n(value) for key, value in numbers.items()}})


def _path(name: str, line: str) -> ET.Element:
    return ET.Element("path", {"class": name, "d": line})


def _head(name: str, x: float, y: float, direction: str) -> ET.Element:
    turns = {"right": "l-9 -4.5v9z", "left": "l9 -4.5v9z", "down": "l-4.5 -8h9z"}
    return _path(name, f"M{_n(x)} {_n(y)}{turns[direction]}")


def _text(name: str, x: float, y: float, line: Line, anchor: str = "start") -> ET.Element:
    text = ET.Element("text", {"class": name, "x": _n(x), "y": _n(y), "text-anchor": anchor})
    text.set("xml:space", "preserve")
    for piece in line:
        span = ET.SubElement(text, "tspan", {"class": "name-in-text"} if piece.code else {})
        span.text = for_xml(piece.text)
    return text


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
