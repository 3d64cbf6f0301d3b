"""HTML pages with pictures, in one file that needs nothing else: no network, no scripts."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.characters import for_xml
from streamlint.pictures import svg
from streamlint.pictures.colors import Scheme, sheet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from streamlint.pictures.model import Picture
    from streamlint.pictures.story import Story

_AROUND = 3
"""Lines of source shown before the first and after the last of the places."""
_FAR = 24
"""Places further apart than this are shown in pieces."""
_STYLE = (Path(__file__).parent / "page.css").read_text("utf-8")


def document(title: str, body: Iterable[str]) -> str:
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta name="generator" content="streamlint">',
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escaped(title)}</title>",
        f"<style>\n{_STYLE}{sheet(Scheme.BOTH)}</style>",
        "</head>",
        "<body>",
        *body,
        "</body>",
        "</html>",
    ]
    return "\n".join(lines) + "\n"


def of_pictures(title: str, pictures: Iterable[Picture]) -> str:
    """A page of pictures and their titles alone."""
    body = [
        line
        for picture in pictures
        for line in (
            f"<section><h2>{marked(picture.title)}</h2>",
            f'<p class="muted">{marked(picture.subtitle)}</p>',
            *figure(svg.element(picture)),
            "</section>",
        )
    ]
    return document(title, body)


def escaped(text: str) -> str:
    return escape(for_xml(text))


def marked(text: str) -> str:
    """Words between backticks as code."""
    return "".join(
        f"<code>{escaped(part)}</code>" if odd % 2 else escaped(part)
        for odd, part in enumerate(text.split("`"))
    )


def figure(picture: str, caption: str = "") -> Iterator[str]:
    yield "<figure>"
    yield f'<div class="wide">{picture}</div>'
    if caption:
        yield f"<figcaption>{caption}</figcaption>"
    yield "</figure>"


def listing(name: str, lines: Sequence[str], marks: Mapping[int, str]) -> Iterator[str]:
    """Lines of source around those of ``marks``, which have a letter."""
    total = len(lines) - (not lines or not lines[-1])
    known = sorted(line for line in marks if 1 <= line <= total)
    if not known:
        return
    # One line: in a <pre>, a line break between blocks would be an empty line.
    shown = [f'<span class="file">{escaped(name)}</span>']
    for number in _shown(known, total):
        if number is None:
            shown.append("<span><i></i><u>    :</u></span>")
            continue
        letter = marks.get(number, "")
        style = ' class="marked"' if letter else ""
        text = escaped(lines[number - 1].expandtabs(4))
        shown.append(f"<span{style}><i>{escaped(letter)}</i><u>{number:5}</u> {text}</span>")
    yield f'<div class="wide"><pre class="source">{"".join(shown)}</pre></div>'


def _shown(marked_lines: Sequence[int], total: int) -> Iterator[int | None]:
    """Numbers of the lines to show; ``None`` stands for lines that are left out."""
    last = 0
    for line in marked_lines:
        first, end = max(1, line - _AROUND), min(total, line + _AROUND)
        if last and first > last + 1:
            if line - last > _FAR:
                yield None
            else:
                first = last + 1
        yield from range(max(first, last + 1), end + 1)
        last = max(last, end)


def steps(told: Story) -> Iterator[str]:
    """A story below its picture, closed until somebody asks."""
    yield f"<details><summary>{escaped(told.heading)}</summary><ol>"
    yield from (f"<li>{marked(step)}</li>" for step in told.steps)
    yield "</ol>"
    if told.assumed:
        yield f'<p class="muted">Assumed: {marked("; ".join(told.assumed))}.</p>'
    yield "</details>"
