"""Findings as the protocol has them: https://microsoft.github.io/language-server-protocol/.

Columns are code points here, and whatever the editor asked for there (UTF-16 units if it did not).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types
from pygls import uris

from streamlint.files import lines_of
from streamlint.finding import Confidence, Severity
from streamlint.settings.catalog import sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pygls.workspace import PositionCodec

    from streamlint.finding import Finding, SourceError
    from streamlint.settings.catalog import RuleInfo
    from streamlint.source import Span

SOURCE = "streamlint"
_SEVERITY = {
    Confidence.CERTAIN: types.DiagnosticSeverity.Error,
    Confidence.LIKELY: types.DiagnosticSeverity.Warning,
    Confidence.POSSIBLE: types.DiagnosticSeverity.Information,
}


class Translator:
    """Makes diagnostics of findings whose paths start at ``root``."""

    def __init__(
        self,
        root: Path,
        lines: Callable[[Path], Sequence[str]],
        codec: PositionCodec,
        named: Mapping[Path, str] | None = None,
    ) -> None:
        """``named``: the URIs of texts that are no files."""
        self._root = root
        self._named = named or {}
        self._lines = lines
        self._codec = codec

    def uri(self, path: str) -> str:
        whole = self._root / path
        return self._named.get(whole) or uris.from_fs_path(str(whole)) or ""

    def diagnostic(self, finding: Finding) -> types.Diagnostic:
        advice = finding.severity is Severity.ADVICE
        message = f"{finding.message} [{finding.confidence.value}]"
        return types.Diagnostic(
            range=self._range(finding.primary),
            message=f"{message}\nhelp: {finding.advice}" if finding.advice else message,
            severity=types.DiagnosticSeverity.Hint if advice else _SEVERITY[finding.confidence],
            code=finding.code,
            source=SOURCE,
            related_information=[
                types.DiagnosticRelatedInformation(
                    types.Location(self.uri(each.span.path), self._range(each.span)), each.message
                )
                for each in finding.elsewhere
            ],
        )

    def error(self, error: SourceError) -> types.Diagnostic:
        line = max(error.line - 1, 0)
        place = types.Range(types.Position(line, 0), types.Position(line + 1, 0))
        return types.Diagnostic(place, error.message, types.DiagnosticSeverity.Error, source=SOURCE)

    def _range(self, span: Span) -> types.Range:
        lines = self._lines(self._root / span.path)
        return self._codec.range_to_client_units(
            lines,
            types.Range(
                types.Position(span.line - 1, span.col), types.Position(span.end_line - 1, span.end_col)
            ),
        )


def described(rule: RuleInfo) -> str:
    """Return what is shown when the pointer rests on a finding."""
    return f"**{rule.code} {rule.name}**: {sentence(rule.summary)}\n\n{rule.doc.strip()}"


def overlap(one: types.Range, other: types.Range) -> bool:
    """Tell whether two ranges have a place in common; an empty one is a place."""

    def before(a: types.Position, b: types.Position) -> bool:
        return (a.line, a.character) < (b.line, b.character)

    return not before(one.end, other.start) and not before(other.end, one.start)


def line_edit(before: str, after: str) -> types.TextEdit:
    """Return the one edit of whole lines that makes ``after`` of ``before``."""
    old, new = lines_of(before, keepends=True), lines_of(after, keepends=True)
    shorter = min(len(old), len(new))
    same = next((row for row in range(shorter) if old[row] != new[row]), shorter)
    tail = 0
    while tail < shorter - same and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    start, end = types.Position(same, 0), types.Position(len(old) - tail, 0)
    return types.TextEdit(types.Range(start, end), "".join(new[same : len(new) - tail]))
