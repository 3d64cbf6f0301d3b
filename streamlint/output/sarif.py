"""The ``sarif`` form: SARIF 2.1.0, for code scanning and for viewers.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html; section numbers below are of that document.
What GitHub takes of it, and how much:
https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning
https://docs.github.com/en/code-security/code-scanning/troubleshooting-sarif-uploads/results-exceed-limit
"""

from __future__ import annotations

import json
import os
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from streamlint import __version__
from streamlint.finding import Confidence, Seen, Severity
from streamlint.frozen import frozen
from streamlint.output.document import written
from streamlint.settings.catalog import sentence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamlint.finding import Finding, Fix, SourceError
    from streamlint.output.outcome import Outcome
    from streamlint.settings.catalog import RuleInfo
    from streamlint.source import Span

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"
FINGERPRINT = "streamlint/v1"
LONGEST = 1024
"""Characters of a description that GitHub shows."""
MOST_RESULTS = 25_000
"""Results of a run: GitHub refuses a file with more, and shows 5,000 of them."""
MOST_PLACES = 100
"""Places of a result that GitHub shows; it refuses more than 1,000."""
_DEFAULT_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}
_LEVEL = {Confidence.CERTAIN: "error", Confidence.LIKELY: "warning", Confidence.POSSIBLE: "note"}
_RANK = {Confidence.CERTAIN: 100.0, Confidence.LIKELY: 70.0, Confidence.POSSIBLE: 30.0}

Json = dict[str, Any]


def render(outcome: Outcome) -> str:
    index = {rule.code: position for position, rule in enumerate(outcome.rules)}
    findings = _surest(outcome.findings)
    page = documentation()
    run: Json = {
        "tool": {
            "driver": {
                "name": "streamlint",
                "version": __version__,
                **({"informationUri": page.home} if page else {}),
                "rules": [_rule(rule, page) for rule in outcome.rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the project."}}},
        "invocations": [_invocation(outcome, len(outcome.findings) - len(findings))],
        "results": [_result(finding, index) for finding in findings],
    }
    return written({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _surest(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Return as many as are taken, in their order."""
    if len(findings) <= MOST_RESULTS:
        return findings
    by_rank = sorted(range(len(findings)), key=lambda each: -_RANK[findings[each].confidence])
    return [findings[each] for each in sorted(by_rank[:MOST_RESULTS])]


def _invocation(outcome: Outcome, left_out: int) -> Json:
    invocation: Json = {
        "executionSuccessful": not outcome.errors and outcome.stop is None,
        "toolExecutionNotifications": [_notification(error) for error in outcome.errors],
    }
    if left_out:
        text = f"{left_out} findings are left out, the least sure: code scanning takes {MOST_RESULTS}"
        invocation["toolExecutionNotifications"].append({"level": "warning", "message": {"text": text}})
    if outcome.stop is not None:
        invocation |= {"exitSignalName": outcome.stop.signal, "exitSignalNumber": outcome.stop.number}
        notice = {"level": "error", "message": {"text": outcome.stop.message}}
        invocation["toolExecutionNotifications"].append(notice)
    return invocation


def _rule(rule: RuleInfo, page: Documentation | None) -> Json:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": sentence(rule.summary)[:LONGEST]},
        "fullDescription": {"text": _what_it_does(rule)[:LONGEST]},
        **({"helpUri": page.rule.format(code=rule.code)} if page else {}),
        "help": {"text": rule.doc, "markdown": rule.doc},
        "defaultConfiguration": {"enabled": rule.default, "level": _DEFAULT_LEVEL[rule.severity]},
        "properties": {"problem.severity": _problem_severity(rule.severity), "tags": ["correctness", "gpu"]},
    }


def _what_it_does(rule: RuleInfo) -> str:
    """Return the first section of a rule's documentation, as one paragraph without markup."""
    _, _, section = rule.doc.partition("## What it does")
    return " ".join(section.partition("\n## ")[0].replace("`", "").split()) or sentence(rule.summary)


@frozen()
class Documentation:
    """Where the documentation is, and the page of a rule in it, with ``{code}``."""

    home: str
    rule: str


@cache
def documentation() -> Documentation | None:
    """Return where the package says that its documentation is, or the repository that it was installed from.

    None where neither is known: it was installed from a folder, and not by the action.
    """
    try:
        installed = metadata.distribution("streamlint")
    except metadata.PackageNotFoundError:
        return None
    named = (url.partition(",") for url in installed.metadata.get_all("Project-URL") or [])
    home = next((url.strip().rstrip("/") for name, _, url in named if name == "Documentation"), None)
    if home is not None:
        return Documentation(home, f"{home}/rules/{{code}}/")
    return _repository(installed.read_text("direct_url.json") or "{}") or _of_action(os.environ)


def _repository(said: str) -> Documentation | None:
    """Return the pages as hosts of repositories show them: ``pip install git+https://...`` notes the commit.

    https://packaging.python.org/en/latest/specifications/direct-url/
    """
    try:
        origin = json.loads(said)
    except ValueError:
        return None
    match origin:
        case {"url": str(url), "vcs_info": {"vcs": "git", "commit_id": str(commit)}}:
            host = urlsplit(url)
            if host.scheme != "https" or host.hostname is None:
                return None
            place = quote(host.path.rstrip("/").removesuffix(".git"))
            return _pages(f"https://{host.hostname}{place}", commit)
        case _:
            return None


_OF_ACTION = ("GITHUB_SERVER_URL", "STREAMLINT_ACTION_REPOSITORY", "STREAMLINT_ACTION_REF")
"""The last two are set by action.yml."""


def _of_action(said: Mapping[str, str]) -> Documentation | None:
    """Return the pages in the repository of the action, which installs the folder where it lies."""
    server, repository, revision = (said.get(name, "") for name in _OF_ACTION)
    if not (server.startswith("https://") and repository and revision):  # `uses: ./` has no repository
        return None
    return _pages(f"{server}/{quote(repository)}", revision)


def _pages(home: str, revision: str) -> Documentation:
    return Documentation(home, f"{home}/blob/{quote(revision)}/docs/rules/{{code}}.md")


def _problem_severity(severity: Severity) -> str:
    """Return GitHub's word for the severity of a rule that is not about security."""
    return "recommendation" if severity is Severity.ADVICE else severity.value


def _result(finding: Finding, index: dict[str, int]) -> Json:
    result: Json = {
        "ruleId": finding.code,
        "level": "note" if finding.severity is Severity.ADVICE else _LEVEL[finding.confidence],
        "rank": _RANK[finding.confidence],
        "message": {"text": _message(finding)},
        "locations": [_primary(finding)],
        "partialFingerprints": {FINGERPRINT: finding.fingerprint},
        "properties": {"confidence": finding.confidence.value, "help": finding.advice},
    }
    if finding.seen is not Seen.PREDICTED:
        result["properties"]["seen"] = finding.seen.value
    if finding.fixes:
        result["fixes"] = [_fix(fix) for fix in finding.fixes]
    if finding.code in index:
        result["ruleIndex"] = index[finding.code]
    if finding.elsewhere:
        others = [_location(each.span, each.message) for each in finding.elsewhere[:MOST_PLACES]]
        result["relatedLocations"] = [{"id": number, **each} for number, each in enumerate(others, 1)]
        last = _location(finding.primary, finding.label or finding.message)
        steps = [*others[: len(finding.related)], last]
        result["codeFlows"] = [{"threadFlows": [{"locations": [{"location": step} for step in steps]}]}]
    return result


def _fix(fix: Fix) -> Json:
    """Return what a viewer may apply (3.55); it is one file that changes."""
    replacements = [
        {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.text}} for edit in fix.edits
    ]
    change = {"artifactLocation": _artifact(fix.edits[0].span.path), "replacements": replacements}
    return {"description": {"text": fix.title}, "artifactChanges": [change]}


def _message(finding: Finding) -> str:
    """Return the message with a link to each related place (3.11.6), and the help as a paragraph."""
    links = [
        f"[{_literal(each.message)}]({number})"
        for number, each in enumerate(finding.elsewhere[:MOST_PLACES], 1)
    ]
    text = _literal(finding.message) + (f" ({'; '.join(links)})" if links else "")
    return f"{text}.\n\nHelp: {_literal(finding.advice)}" if finding.advice else f"{text}."


def _literal(text: str) -> str:
    """Return text in which nothing is a link: brackets mean one otherwise (``streams[0]``)."""
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")


def _primary(finding: Finding) -> Json:
    location = _location(finding.primary, finding.label)
    if finding.function:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.function, "kind": "function"}]
    return location


def _location(span: Span, message: str) -> Json:
    physical = {
        "artifactLocation": _artifact(span.path),
        "region": _region(span),
    }
    return {"physicalLocation": physical, **({"message": {"text": message}} if message else {})}


def _region(span: Span) -> Json:
    return {
        "startLine": span.line,
        "startColumn": span.col + 1,
        "endLine": span.end_line,
        "endColumn": span.end_col + 1,
    }


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
