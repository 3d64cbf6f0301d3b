"""The ``json`` form, version 1: for tools. Lines and columns count from 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Seen, SourceError
from streamlint.notebook import split_path
from streamlint.output.document import written

if TYPE_CHECKING:
    from streamlint.finding import Finding, Fix, Related
    from streamlint.output.outcome import Outcome
    from streamlint.source import Span

VERSION = 1


def render(outcome: Outcome) -> str:
    stop = outcome.stop
    document = {
        "version": VERSION,
        "findings": [fields(finding) for finding in outcome.findings],
        "errors": [
            {**_file(error.path), "line": max(error.line, 1), "message": error.message}
            for error in (*outcome.errors, *_stopped(outcome))
        ],
        "summary": {
            "files": outcome.files,
            "analyzed": outcome.analyzed,
            "findings": len(outcome.findings),
            "seconds": round(outcome.seconds, 3),
            **({} if stop is None else {"stopped": {"signal": stop.signal, "files": stop.done}}),
            "left_out": [
                {"path": left.path, "function": left.function, "what": left.what, "count": left.count}
                for left in outcome.statistics.left_out
            ],
        },
    }
    return written(document)


def _stopped(outcome: Outcome) -> tuple[SourceError, ...]:
    """A run that was stopped is an error of the whole project, for those who look for errors only."""
    return () if outcome.stop is None else (SourceError(".", 0, outcome.stop.message),)


def fields(finding: Finding) -> dict[str, object]:
    """What the form tells of one finding."""
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "help": finding.advice,
        "confidence": finding.confidence.value,
        "severity": finding.severity.value,
        **_place(finding.primary),
        "function": finding.function,
        "fingerprint": finding.fingerprint,
        **({} if finding.seen is Seen.PREDICTED else {"seen": finding.seen.value}),
        "related": [_related(related) for related in finding.related],
        **({"also": [_related(other) for other in finding.also]} if finding.also else {}),
        **({"fixes": [_fix(fix) for fix in finding.fixes]} if finding.fixes else {}),
    }


def _related(related: Related) -> dict[str, object]:
    return {**_place(related.span), "message": related.message}


def _fix(fix: Fix) -> dict[str, object]:
    edits = [{**_place(edit.span), "text": edit.text} for edit in fix.edits]
    return {"title": fix.title, "safe": fix.safe, "edits": edits}


def _place(span: Span) -> dict[str, object]:
    return {
        **_file(span.path),
        "line": span.line,
        "column": span.col + 1,
        "end_line": span.end_line,
        "end_column": span.end_col + 1,
    }


def _file(path: str) -> dict[str, object]:
    """A file; of a notebook the cell too, whose lines are counted then."""
    name, cell = split_path(path)
    return {"path": name, **({} if cell is None else {"cell": cell})}
