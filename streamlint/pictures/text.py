"""Pictures as text, in rows: for terminals, and for who cannot see the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.pictures.model import Fault, How

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.pictures.model import Picture

_WIDEST = 48
_SAID = {
    Fault.UNORDERED: "Nothing orders {a} and {b}.",
    Fault.DOUBTFUL: "Nothing surely orders {a} and {b}.",
    Fault.CIRCLE: "{a} and {b} wait for each other.",
}


def render(pictures: Sequence[Picture]) -> str:
    return "\n".join("\n".join(_picture(picture)) + "\n" for picture in pictures)


def _picture(picture: Picture) -> Iterator[str]:
    yield picture.title
    yield picture.subtitle
    yield ""
    rows = [
        (each.letter, each.place, picture.lanes[each.lane].name, _short(each.code), each.effect)
        for each in picture.operations
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    breaks = {each.row: each.text for each in picture.breaks}
    for number, row in enumerate(rows):
        if picture.operations[number].row in breaks:
            yield f"--- {breaks[picture.operations[number].row]}"
        cells = [f"{cell:{align}{width}}" for cell, align, width in zip(row[:4], "<><<", widths, strict=True)]
        yield "  ".join([*cells, row[4], *_after(picture, number)]).rstrip()
    yield ""
    for pair in picture.missing:
        a, b = (picture.operations[number].letter for number in (pair.earlier, pair.later))
        yield _SAID[pair.fault].format(a=a, b=b)
    yield from picture.notes


def _after(picture: Picture, number: int) -> Iterator[str]:
    """``(after line 12)``: the arrows that end here, but those that only tell when something is issued."""
    places = [
        picture.operations[arrow.earlier].place or picture.operations[arrow.earlier].code
        for arrow in picture.arrows
        if arrow.later == number and arrow.how is How.WAITS
    ]
    if places:
        yield f"(after {', '.join(places)})"


def _short(code: str) -> str:
    half = _WIDEST // 2
    return code if len(code) <= _WIDEST else f"{code[:half]}…{code[-half + 1 :]}"
