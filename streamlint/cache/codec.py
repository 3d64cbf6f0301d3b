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
            tuple(SourceError(_text(path), _int(line), _text(message)) for path, line, message in errors),
            _int(files),
            _int(analyzed),
            Statistics(
                _int(exact),
                _int(cut),
                _int(skipped),
                tuple(
                    LeftOut(_text(path), _text(function), _text(what), _int(count))
                    for path, function, what, count in left_out
                ),
            ),
            None if marked is None else frozenset(map(_text, marked)),
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
        finding.edge,
        finding.fork,
        finding.seen.value,
        finding.at_call,
        [
            [fix.title, [[_span(edit.span), edit.text] for edit in fix.edits], fix.safe]
            for fix in finding.fixes
        ],
        finding.statement,
    ]


def _read_finding(content: list[Any]) -> Finding:
    code, name, message, advice, confidence, severity, primary, label, function, *rest = content
    related, fingerprint, earlier, follows, edge, fork, seen, at_call, fixes, statement = rest
    return Finding(
        code=_text(code),
        name=_text(name),
        message=_text(message),
        help=_text(advice),
        confidence=Confidence(confidence),
        severity=Severity(severity),
        primary=_read_place(primary),
        label=_text(label),
        function=_text(function),
        related=tuple(Related(_read_place(span), _text(text)) for span, text in related),
        fingerprint=_text(fingerprint),
        earlier=_read_span(earlier),
        follows=tuple(_read_pair(*pair) for pair in follows),
        edge=_text(edge),
        fork=_text(fork),
        seen=Seen(seen),
        at_call=bool(at_call),
        fixes=tuple(
            Fix(_text(title), tuple(Edit(_read_place(span), _text(text)) for span, text in edits), bool(safe))
            for title, edits, safe in fixes
        ),
        statement=_text(statement),
    )


def _span(span: Span | None) -> list[object] | None:
    return None if span is None else [span.path, span.line, span.col, span.end_line, span.end_col]


def _read_place(content: list[Any]) -> Span:
    path, *numbers = content
    return Span(_text(path), *map(_int, numbers))


def _read_span(content: list[Any] | None) -> Span | None:
    return None if content is None else _read_place(content)


def _text(value: object) -> str:
    """What is kept may be anybody's: a list in the place of a code would end the run much later."""
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _int(value: object) -> int:
    if type(value) is not int:
        raise TypeError(value)
    return value


def _read_pair(code: str, primary: list[Any], other: list[Any] | None) -> Pair:
    return _text(code), _read_place(primary), _read_span(other)
