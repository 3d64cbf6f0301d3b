"""The ``sarif`` form: SARIF 2.1.0, for code scanning and for viewers.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html; section numbers below are of that document.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from streamlint import __version__
from streamlint.finding import Confidence, Seen, Severity
from streamlint.output.document import written
from streamlint.settings.catalog import sentence

if TYPE_CHECKING:
    from streamlint.finding import Finding, SourceError
    from streamlint.output.outcome import Outcome
    from streamlint.settings.catalog import RuleInfo
    from streamlint.source import Span

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"
FINGERPRINT = "streamlint/v1"
_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}
_RANK = {Confidence.CERTAIN: 100.0, Confidence.LIKELY: 70.0, Confidence.POSSIBLE: 30.0}

Json = dict[str, Any]


def render(outcome: Outcome) -> str:
    index = {rule.code: position for position, rule in enumerate(outcome.rules)}
    run: Json = {
        "tool": {
            "driver": {
                "name": "streamlint",
                "version": __version__,
                "rules": [_rule(rule) for rule in outcome.rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the project."}}},
        "invocations": [_invocation(outcome)],
        "results": [_result(finding, index) for finding in outcome.findings],
    }
    return written({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _invocation(outcome: Outcome) -> Json:
    invocation: Json = {
        "executionSuccessful": not outcome.errors and outcome.stop is None,
        "toolExecutionNotifications": [_notification(error) for error in outcome.errors],
    }
    if outcome.stop is not None:
        invocation |= {"exitSignalName": outcome.stop.signal, "exitSignalNumber": outcome.stop.number}
        notice = {"level": "error", "message": {"text": outcome.stop.message}}
        invocation["toolExecutionNotifications"].append(notice)
    return invocation


def _rule(rule: RuleInfo) -> Json:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": sentence(rule.summary)},
        "help": {"text": rule.doc, "markdown": rule.doc},
        "defaultConfiguration": {"enabled": rule.default, "level": _LEVEL[rule.severity]},
        "properties": {"problem.severity": _problem_severity(rule.severity), "tags": ["correctness", "gpu"]},
    }


def _problem_severity(severity: Severity) -> str:
    """Return GitHub's word for the severity of a rule that is not about security."""
    return "recommendation" if severity is Severity.ADVICE else severity.value


def _result(finding: Finding, index: dict[str, int]) -> Json:
    result: Json = {
        "ruleId": finding.code,
        "level": _LEVEL[finding.severity],
        "rank": _RANK[finding.confidence],
        "message": {"text": finding.message},
        "locations": [_primary(finding)],
        "partialFingerprints": {FINGERPRINT: finding.fingerprint},
        "properties": {"confidence": finding.confidence.value, "help": finding.help},
    }
    if finding.seen is not Seen.PREDICTED:
        result["properties"]["seen"] = finding.seen.value
    if finding.code in index:
        result["ruleIndex"] = index[finding.code]
    if finding.related:
        related = [_location(each.span, each.message) for each in finding.related]
        result["relatedLocations"] = [{"id": number, **each} for number, each in enumerate(related, 1)]
        steps = [*related, _location(finding.primary, finding.label or finding.message)]
        result["codeFlows"] = [{"threadFlows": [{"locations": [{"location": step} for step in steps]}]}]
    return result


def _primary(finding: Finding) -> Json:
    location = _location(finding.primary, finding.label)
    if finding.function:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.function, "kind": "function"}]
    return location


def _location(span: Span, message: str) -> Json:
    physical = {
        "artifactLocation": _artifact(span.path),
        "region": {
            "startLine": span.line,
            "startColumn": span.col + 1,
            "endLine": span.end_line,
            "endColumn": span.end_col + 1,
        },
    }
    return {"physicalLocation": physical, **({"message": {"text": message}} if message else {})}


def _artifact(path: str) -> Json:
    """Return a relative URI reference (3.4.3); a byte that is not UTF-8 keeps its value."""
    return {"uri": quote(os.fsencode(path), safe="/"), "uriBaseId": ROOT}


def _notification(error: SourceError) -> Json:
    physical = {"artifactLocation": _artifact(error.path), "region": {"startLine": max(error.line, 1)}}
    return {
        "level": "error",
        "message": {"text": error.message},
        "locations": [{"physicalLocation": physical}],
    }
