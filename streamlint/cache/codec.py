"""Findings as JSON and back. What is kept is data: reading it runs nothing."""

from __future__ import annotations

import json
from typing import Any

from streamlint.finding import (
    Confidence,
    Edit,
    Finding,
    Fix,
    LeftOut,
    Pair,
    Related,
    Report,
    Seen,
    Severity,
    SourceError,
    Statistics,
)
from streamlint.source import Span


def dump(report: Report) -> bytes:
    """All of a report but the evidence of its findings."""
    numbers = report.statistics
    content = [
        [_finding(finding) for finding in report.findings],
        [[error.path, error.line, error.message] for error in report.errors],
        report.files,
        report.analyzed,
        [numbers.exact, numbers.cut, numbers.skipped],
        [[left.path, left.function, left.what, left.count] for left in numbers.left_out],
        None if report.marked is None else sorted(report.marked),
    ]
    return json.dumps(content, separators=(",", ":")).encode()


def load(data: bytes) -> Report | None:
    """The report; None if this is none."""
    try:
        findings, errors, files, analyzed, (exact, cut, skipped), left_out, marked = json.loads(data)
        return Report(
            tuple(_read_finding(each) for each in findings),
            tuple(SourceError(path, line, message) for path, line, message in errors),
            files,
            analyzed,
            Statistics(exact, cut, skipped, tuple(LeftOut(*each) for each in left_out)),
            None if marked is None else frozenset(map(str, marked)),
        )
    except (ValueError, TypeError, RecursionError):
        return None


def _finding(finding: Finding) -> list[object]:
    return [
        finding.code,
        finding.name,
        finding.message,
        finding.help,
        finding.confidence.value,
        finding.severity.value,
        _span(finding.primary),
        finding.label,
        finding.function,
        [[_span(each.span), each.message] for each in finding.related],
        finding.fingerprint,
        _span(finding.earlier),
        [[code, _span(primary), _span(other)] for code, primary, other in finding.follows],
        finding.seen.value,
        finding.at_call,
        [
            [fix.title, [[_span(edit.span), edit.text] for edit in fix.edits], fix.safe]
            for fix in finding.fixes
        ],
    ]


def _read_finding(content: list[Any]) -> Finding:
    code, name, message, advice, confidence, severity, primary, label, function, *rest = content
    related, fingerprint, earlier, follows, seen, at_call, fixes = rest
    return Finding(
        code=code,
        name=name,
        message=message,
        help=advice,
        confidence=Confidence(confidence),
        severity=Severity(severity),
        primary=Span(*primary),
        label=label,
        function=function,
        related=tuple(Related(Span(*span), text) for span, text in related),
        fingerprint=fingerprint,
        earlier=_read_span(earlier),
        follows=tuple(_read_pair(*pair) for pair in follows),
        seen=Seen(seen),
        at_call=at_call,
        fixes=tuple(
            Fix(title, tuple(Edit(Span(*span), text) for span, text in edits), safe)
            for title, edits, safe in fixes
        ),
    )


def _span(span: Span | None) -> list[object] | None:
    return None if span is None else [span.path, span.line, span.col, span.end_line, span.end_col]


def _read_span(content: list[Any] | None) -> Span | None:
    return None if content is None else Span(*content)


def _read_pair(code: str, primary: list[Any], other: list[Any] | None) -> Pair:
    return code, Span(*primary), _read_span(other)
