"""Source frames: the lines a finding is about, with what happens there written underneath.

::

    12 |     with torch.cuda.stream(copy):
    13 |         batch = host.to("cuda", non_blocking=True)
       |                 ---------------------------------- written here on `copy`
    14 |     loss = model(batch)
       |            ^^^^^^^^^^^^ read here on the current stream
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.characters import plain, visible, width
from streamlint.frozen import frozen
from streamlint.output.style import TAB, Style

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from streamlint.finding import Severity
    from streamlint.source import Span

MAX_COLUMNS = 110
"""Source lines are cut to this many columns, around the place that matters."""
LEAD = 20
"""Columns kept before that place in a cut line."""
CONTEXT = 1
"""Lines shown before and after each place."""


@frozen()
class Mark:
    """One place to underline."""

    span: Span
    label: str
    severity: Severity | None
    """Set for the primary place only, which is underlined in its colour."""

    def paint(self, text: str, style: Style) -> str:
        return style.related(text) if self.severity is None else style.severity(text, self.severity)


@frozen()
class _Underline:
    """A stretch of one line, in code points."""

    start: int
    end: int
    label: str
    mark: Mark


def frame(marks: Sequence[Mark], lines: Sequence[str], gutter: int, style: Style) -> list[str]:
    """Return the rows of a frame for places of one file; ``gutter`` is the width of the line numbers.

    Places that the text does not have (a missing or changed file) become notes.
    """
    inside = [mark for mark in marks if 1 <= mark.span.line <= len(lines)]
    rows = [style.gutter(f"{'':{gutter}} |")]
    underlines: dict[int, list[_Underline]] = {}
    for mark in inside:
        for number, underline in _underlines(mark, lines):
            underlines.setdefault(number, []).append(underline)
    previous = None
    for number in _visible_lines(underlines, lines):
        if previous is not None and number > previous + 1:
            rows.append(style.gutter("..."))
        rows += _line_rows(number, lines[number - 1], underlines.get(number, []), gutter, style)
        previous = number
    rows += [
        f"{style.gutter(f'{chr(32):{gutter}} =')} {plain(f'{mark.span}: {mark.label}')}"
        for mark in marks
        if mark not in inside and mark.label
    ]
    return rows


def _underlines(mark: Mark, lines: Sequence[str]) -> Iterator[tuple[int, _Underline]]:
    """Underline a place: the whole of it on one line, or its first and its last line."""
    span = mark.span
    last = min(span.end_line, len(lines))
    if last <= span.line:
        yield span.line, _Underline(span.col, max(span.end_col, span.col + 1), mark.label, mark)
        return
    first_text, last_text = lines[span.line - 1].rstrip(), lines[last - 1]
    indent = len(last_text) - len(last_text.lstrip())
    yield span.line, _Underline(span.col, max(len(first_text), span.col + 1), "", mark)
    end = span.end_col if last == span.end_line else len(last_text)
    yield last, _Underline(min(indent, end - 1), end, mark.label, mark)


def _visible_lines(marked: Iterable[int], lines: Sequence[str]) -> list[int]:
    """Choose the marked lines, their neighbours unless blank, and single lines left between."""
    marked = set(marked)
    chosen = {
        number
        for each in marked
        for number in range(each - CONTEXT, each + CONTEXT + 1)
        if number in marked or (1 <= number <= len(lines) and lines[number - 1].strip())
    }
    between = {number + 1 for number in chosen if number + 2 in chosen}
    return sorted(chosen | between)


@frozen()
class _Cells:
    """A line as it appears: text and column of each code point, after tabs and wide characters."""

    texts: tuple[str, ...]
    columns: tuple[int, ...]
    """Start column of each code point, and the end of the last."""


def _cells(line: str) -> _Cells:
    texts: list[str] = []
    columns = [0]
    for char in line:
        text = " " * (TAB - columns[-1] % TAB) if char == "\t" else visible(char)
        texts.append(text)
        columns.append(columns[-1] + (len(text) if char == "\t" else width(text)))
    return _Cells(tuple(texts), tuple(columns))


def _line_rows(
    number: int, line: str, underlines: Sequence[_Underline], gutter: int, style: Style
) -> Iterator[str]:
    cells = _cells(line.rstrip())
    start, end = _window(cells, underlines)
    text = "".join(cells.texts[start:end])
    left = "... " if start else ""
    right = " ..." if end < len(cells.texts) else ""
    shown = f"{style.faint(left)}{text}{style.faint(right)}"
    yield f"{style.gutter(f'{number:>{gutter}} |')} {shown}".rstrip()
    for underline in sorted(underlines, key=lambda each: each.start):
        low = min(max(underline.start, start), end)
        high = max(min(underline.end, end), low)
        columns = cells.columns
        indent = len(left) + columns[low] - columns[start]
        length = max(columns[high] - columns[low], 1)
        strokes = ("-" if underline.mark.severity is None else "^") * length
        label = f" {plain(underline.label)}" if underline.label else ""
        painted = underline.mark.paint(strokes + label, style)
        yield f"{style.gutter(f'{chr(32):{gutter}} |')} {'':{indent}}{painted}"


def _window(cells: _Cells, underlines: Sequence[_Underline]) -> tuple[int, int]:
    """Choose the code points of a line to show: all, or those around its first underline."""
    total = len(cells.texts)
    columns = cells.columns
    if columns[-1] <= MAX_COLUMNS:
        return 0, total
    start = 0
    leftmost = min((each.start for each in underlines), default=0)
    rightmost = max((each.end for each in underlines), default=0)
    if columns[min(rightmost, total)] > MAX_COLUMNS:
        wanted = columns[min(leftmost, total)] - LEAD
        start = next((index for index, column in enumerate(columns) if column >= wanted), 0)
    limit = columns[start] + MAX_COLUMNS
    end = max((index for index, column in enumerate(columns) if column <= limit), default=total)
    return start, end
