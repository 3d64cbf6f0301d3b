"""Edits applied to a text, and what changed as a unified diff."""

from __future__ import annotations

import difflib
import io
from itertools import accumulate
from typing import TYPE_CHECKING

from streamlint.files import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streamlint.finding import Edit, Fix


def compatible(fixes: Iterable[Fix]) -> list[Fix]:
    """Those that can be applied together: of two that touch one place the first, and equal edits once."""
    chosen: list[Fix] = []
    taken: list[Edit] = []
    for fix in fixes:
        new = [edit for edit in fix.edits if edit not in taken]
        if not any(_meet(edit, other) for edit in new for other in taken):
            chosen.append(fix)
            taken += new
    return chosen


def _meet(one: Edit, other: Edit) -> bool:
    """Whether two edits are about one place; two texts put in at one point are, too."""
    first, second = sorted((one.span, other.span))
    return (second.line, second.col) <= (first.end_line, first.end_col)


def applied(text: str, fixes: Iterable[Fix]) -> str:
    """The text with the edits of compatible fixes; its line ends stay."""
    edits = {(edit.span, edit.text) for fix in fixes for edit in fix.edits}
    lines = lines_of(text, keepends=True)
    starts = [0, *accumulate(map(len, lines))]

    def offset(line: int, col: int) -> int:
        return min(starts[line - 1] + col, len(text)) if line <= len(starts) else len(text)

    for span, new in sorted(edits, reverse=True):
        first, last = offset(span.line, span.col), offset(span.end_line, span.end_col)
        text = text[:first] + new.replace("\n", _end(lines[max(0, span.line - 3) : span.line])) + text[last:]
    return text


def _end(lines: Sequence[str]) -> str:
    """How the last of some lines ends that has an end: the last one of a file may have none."""
    ends = (line[len(line.rstrip("\r\n")) :] for line in reversed(lines))
    return next(filter(None, ends), "\n")


def diff(path: str, before: str, after: str) -> str:
    """What changed, as ``git diff`` and ``patch`` read it."""
    lines = difflib.unified_diff(_lines(before), _lines(after), path, path)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _lines(text: str) -> Sequence[str]:
    return io.StringIO(text, newline="\n").readlines()
