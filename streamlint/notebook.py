"""Jupyter notebooks: their code cells as one module, and where its lines are.

The format: https://nbformat.readthedocs.io/en/latest/format_description.html. Cells are taken in the order in
which they stand. What IPython alone understands keeps its line, so that places stay right: a line magic
(``%matplotlib inline``), a command (``!nvidia-smi``) and a question (``Stream?``) become ``pass``, what is
assigned from one (``files = !ls``) becomes ``...``, and a cell of another language (``%%bash``) blank lines.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from streamlint import parsing
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = ".ipynb"
MAX_BYTES = 50_000_000
"""Pictures are kept in a notebook too; of its code there may be as much as of any."""
MOST_CELLS = 10_000
PYTHON_CELLS = frozenset({"capture", "debug", "prun", "time", "timeit"})
"""Cell magics that run their text as Python: https://ipython.readthedocs.io/en/stable/interactive/magics.html"""
_TARGETS = re.compile(r"[\w.,\[\]\s]+")
_CELL_PATH = re.compile(r"(?P<path>.*\.ipynb):cell (?P<cell>\d+)", re.DOTALL)


class NotebookError(ValueError):
    """Text that is no notebook. ``line`` is that of the file, or 0."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


@frozen()
class Cell:
    """A code cell: its number among all cells, from 1, and its lines as they are and as Python."""

    number: int
    source: tuple[str, ...]
    python: tuple[str, ...]


@frozen()
class Notebook:
    """The code cells of a notebook of Python; none, if it is of another language."""

    cells: tuple[Cell, ...]

    @property
    def module(self) -> bytes:
        """The text of the module, in UTF-8."""
        return "".join(f"{line}\n" for cell in self.cells for line in cell.python).encode("utf-8", "replace")

    def place(self, line: int) -> tuple[Cell, int]:
        """Return the cell that a line of the module is in, and the line there; behind the end, the last cell.

        Raises LookupError if there are no cells.
        """
        starts = [1]
        for cell in self.cells:
            starts.append(starts[-1] + len(cell.python))
        index = min(max(bisect_right(starts, line) - 1, 0), len(self.cells) - 1)
        return self.cells[index], line - starts[index] + 1


def parse(content: bytes) -> Notebook:
    """Read a notebook. Raises NotebookError."""
    try:
        document = parsing.json_of(content)
    except parsing.UnparsableError as error:
        raise NotebookError(f"not a notebook: {error}", error.line) from error
    way: tuple[str | int, ...] = ("cells",)
    match document:
        case {"cells": [*cells]}:
            pass
        case {"worksheets": [{"cells": [*cells]}, *_]}:  # version 3
            way = ("worksheets", 0, "cells")
        case _:
            raise NotebookError("not a notebook: it has no cells", parsing.json_line(content, *way))
    if _language(document) not in ("python", "ipython"):
        return Notebook(())
    if len(cells) > MOST_CELLS:
        raise NotebookError(f"a notebook of more than {MOST_CELLS} cells")
    for number, cell in enumerate(cells, 1):
        wrong = _what_is_wrong(cell)
        if wrong:
            line = parsing.json_line(content, *way, number - 1, "source")
            raise NotebookError(f"not a notebook: cell {number} {wrong}", line)
    found = [(number, _source(cell)) for number, cell in enumerate(cells, 1)]
    size = sum(len(source) for _, source in found if source is not None)
    if size > parsing.MAX_BYTES:
        raise NotebookError(f"its code is too large ({size} characters, the limit is {parsing.MAX_BYTES})")
    return Notebook(tuple(_cell(number, source) for number, source in found if source is not None))


def _language(document: object) -> str:
    match document:
        case {"metadata": {"language_info": {"name": str(name)}}}:
            return name.lower()
        case {"metadata": {"kernelspec": {"language": str(name)}}}:
            return name.lower()
        case _:
            return "python"


def _what_is_wrong(cell: object) -> str:
    match cell:
        case {"cell_type": "code", "source": source} | {"cell_type": "code", "input": source}:
            lines = source if isinstance(source, list) else [source]
            return "" if all(isinstance(line, str) for line in lines) else "has a source that is no text"
        case {"cell_type": "code"}:
            return "has no source"
        case {"cell_type": str()}:
            return ""
        case _:
            return "has no type"


def _source(cell: object) -> str | None:
    """Return the text of a code cell; None of any other."""
    match cell:
        case {"cell_type": "code", "source": source} | {"cell_type": "code", "input": source}:
            return "".join(source)
        case _:
            return None


def _cell(number: int, source: str) -> Cell:
    lines = tuple(re.split(r"\r\n|\r|\n", source))
    return Cell(number, lines, _python(lines))


def _python(lines: tuple[str, ...]) -> tuple[str, ...]:
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        name = lines[first][2:].split(" ")[0].strip()
        if name not in PYTHON_CELLS:
            return ("",) * len(lines)
        lines = (*lines[:first], "", *lines[first + 1 :])
    # `% 2` may open a line of an expression in brackets: what is Python is left alone.
    return lines if parsing.parses("\n".join(lines)) else tuple(map(_without_magic, lines))


def _without_magic(line: str) -> str:
    if line.lstrip().startswith("#"):
        return line
    said = line.strip()
    if said.startswith(("%", "!", "?")) or said.endswith("?"):
        return line[: len(line) - len(line.lstrip())] + "pass"
    targets, _, value = line.partition("=")
    command = value.lstrip()
    assigned = targets.strip() and _TARGETS.fullmatch(targets)
    if assigned and command.startswith(("%", "!")) and not command.startswith(("%=", "!=")):
        return f"{targets}={value[: len(value) - len(command)]}..."
    return line


def cell_path(path: str, cell: int) -> str:
    """Return the name that a cell has in messages: ``train.ipynb:cell 3``."""
    return f"{path}:cell {cell}"


def split_path(path: str) -> tuple[str, int | None]:
    """Return the file of a path in messages, and the cell if it names one: the inverse of ``cell_path``."""
    match = _CELL_PATH.fullmatch(path)
    return (match["path"], int(match["cell"])) if match else (path, None)


def lines_in_file(content: bytes, notebook: Notebook) -> list[tuple[int, int]]:
    """Return for each line of the module its line in the file, and the column where its text starts there.

    A file is read by lines where a notebook is not shown as one (GitHub's annotations). Jupyter writes each
    line of a cell on a line of its own, others a cell as one text; lines of a file that is laid out otherwise
    are placed at its first.
    """
    rows = content.decode("utf-8-sig").split("\n")
    by_text: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        by_text.setdefault(_SOURCE.sub("", row.strip()).rstrip(","), []).append(number)

    def find(text: str) -> _Written | None:
        """Where a text stands next, from the row ``at``."""
        if not text:  # an empty cell may be in the file as `[]`
            return None
        written = {json.dumps(text, ensure_ascii=ascii_only): ascii_only for ascii_only in (False, True)}
        alike = ((by_text[each], each) for each in written if each in by_text)
        found = min(((n[i], each) for n, each in alike if (i := bisect_left(n, at)) < len(n)), default=None)
        if found is None:
            return None
        row, each = found
        return _Written(row, rows[row].index(each) + 1, written[each])

    places: list[tuple[int, int]] = []
    at = 0
    for cell in notebook.cells:
        whole = find("\n".join(cell.source))
        if whole is not None:
            places += whole.starts(cell.source)
            at = whole.row + 1
            continue
        for index, line in enumerate(cell.source):
            end = "\n" if index + 1 < len(cell.source) else ""
            found = find(line + end)
            places += [(1, 0)] if found is None else found.starts((line,))
            at = at if found is None else found.row + 1
    return places


_SOURCE = re.compile(r'\A"(?:source|input)":\s*')


@frozen()
class _Written:
    """A JSON string in a file: the row, from 0, and the column behind its quote."""

    row: int
    col: int
    ascii_only: bool

    def starts(self, lines: tuple[str, ...]) -> Iterator[tuple[int, int]]:
        """Yield the place in the file of each line that it holds."""
        col = self.col
        for line in lines:
            yield self.row + 1, col
            col += len(json.dumps(line + "\n", ensure_ascii=self.ascii_only)) - len('""')
