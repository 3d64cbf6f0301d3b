"""Where places are for the reader of an output: the folder that paths start from, and cells of notebooks."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.files import SourceFiles, UnreadableError, read
from streamlint.frozen import frozen, replace
from streamlint.notebook import MAX_BYTES, SUFFIX, NotebookError, cell_path, lines_in_file, parse
from streamlint.output.outcome import Format
from streamlint.source import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streamlint.finding import Finding, Occurrence, SourceError
    from streamlint.notebook import Notebook
    from streamlint.output.outcome import Outcome

_BY_LINE = frozenset({Format.SARIF, Format.GITHUB, Format.GITLAB, Format.JUNIT})
"""Forms whose readers show a notebook as the text that it is."""


class Start(Enum):
    """Where paths are read from; the words are those of the command line."""

    HERE = "here"
    """The folder that the command is run in: what a person, a shell and an editor can open."""
    ROOT = "root"
    """The root of the project: the same wherever the command is run."""

    @classmethod
    def usual(cls, form: Format) -> Start:
        """Text is for people and editors; the other forms are stored, uploaded and compared."""
        return cls.HERE if form in (Format.FULL, Format.CONCISE) else cls.ROOT


def shown_from(outcome: Outcome, folder: Path) -> Outcome:
    """Return an outcome, whose paths start from the project's root, with paths that start from ``folder``.

    What does not lie below ``folder`` gets its whole path.
    """
    root = outcome.sources.root

    def path(name: str) -> str:
        whole = Path(os.path.normpath(root / name))
        return (whole.relative_to(folder) if whole.is_relative_to(folder) else whole).as_posix()

    if root == folder:
        return outcome
    return replace(
        outcome,
        findings=tuple(_moved(finding, path) for finding in outcome.findings),
        errors=tuple(replace(error, path=path(error.path)) for error in outcome.errors),
        statistics=replace(
            outcome.statistics,
            left_out=tuple(replace(left, path=path(left.path)) for left in outcome.statistics.left_out),
        ),
        sources=SourceFiles(
            folder, {path(name): content for name, content in outcome.sources.overlay.items()}
        ),
    )


def in_notebooks(outcome: Outcome, form: Format) -> Outcome:
    """Return an outcome whose places in notebooks are those of their cells, or of lines of the file.

    A notebook is analyzed as one module. A person looks for the cell (``train.ipynb:cell 3:5:8``); what shows
    files as they are (annotations, code scanning) needs the line of the file.
    """
    names = {finding.primary.path for finding in outcome.findings} | {each.path for each in outcome.errors}
    names |= {related.span.path for finding in outcome.findings for related in finding.elsewhere}
    notebooks = {name: shown for name in names if (shown := _Shown.of(name, outcome, form)) is not None}
    if not notebooks:
        return outcome

    def place(span: Span) -> Span:
        return notebooks[span.path].place(span) if span.path in notebooks else span

    def error(each: SourceError) -> SourceError:
        if each.path not in notebooks or not each.line:
            return each
        start = place(Span(each.path, each.line, 0, each.line, 0))
        return replace(each, path=start.path, line=start.line)

    cells = {text: content for shown in notebooks.values() for text, content in shown.cells()}
    return replace(
        outcome,
        findings=tuple(_placed(finding, place) for finding in outcome.findings),
        errors=tuple(map(error, outcome.errors)),
        sources=SourceFiles(outcome.sources.root, {**outcome.sources.overlay, **cells}),
    )


@frozen()
class _Shown:
    """A notebook, and the lines of its file if those are what is wanted."""

    path: str
    notebook: Notebook
    rows: Sequence[tuple[int, int]] | None

    @classmethod
    def of(cls, path: str, outcome: Outcome, form: Format) -> _Shown | None:
        if not path.endswith(SUFFIX):
            return None
        try:
            content = read(outcome.sources.root / path, MAX_BYTES)
            found = parse(content)
        except (UnreadableError, NotebookError):
            return None
        rows = lines_in_file(content, found) if form in _BY_LINE else None
        return cls(path, found, rows) if found.cells else None

    def place(self, span: Span) -> Span:
        if self.rows is not None:
            (line, col), (end_line, end_col) = (self._row(each) for each in (span.line, span.end_line))
            return Span(self.path, line, col + span.col, end_line, end_col + span.end_col)
        cell, line = self.notebook.place(span.line)
        end = min(line + span.end_line - span.line, max(len(cell.source), line))
        return Span(cell_path(self.path, cell.number), line, span.col, end, span.end_col)

    def _row(self, line: int) -> tuple[int, int]:
        assert self.rows is not None, "asked for by `place` alone"
        return self.rows[line - 1] if line <= len(self.rows) else (1, 0)

    def cells(self) -> Iterator[tuple[str, bytes]]:
        for cell in self.notebook.cells:
            yield cell_path(self.path, cell.number), "\n".join(cell.source).encode("utf-8", "replace")


def _moved(finding: Finding, path: Callable[[str], str]) -> Finding:
    return _placed(finding, lambda span: replace(span, path=path(span.path)))


def _placed(finding: Finding, moved: Callable[[Span], Span]) -> Finding:
    return replace(
        finding,
        primary=moved(finding.primary),
        earlier=moved(finding.earlier) if finding.earlier is not None else None,
        evidence=_evidence_at(finding.evidence, moved) if finding.evidence is not None else None,
        related=tuple(replace(related, span=moved(related.span)) for related in finding.related),
        also=tuple(replace(other, span=moved(other.span)) for other in finding.also),
        fixes=tuple(
            replace(fix, edits=tuple(replace(edit, span=moved(edit.span)) for edit in fix.edits))
            for fix in finding.fixes
        ),
    )


def _evidence_at(evidence: Occurrence, moved: Callable[[Span], Span]) -> Occurrence:
    ops = tuple(
        replace(op, at=replace(op.at, span=moved(op.at.span), calls=tuple(map(moved, op.at.calls))))
        for op in evidence.trace.ops
    )
    return replace(evidence, trace=replace(evidence.trace, ops=ops))
