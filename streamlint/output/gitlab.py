"""The ``gitlab`` form: a Code Quality report, which GitLab shows in merge requests.

https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from streamlint.finding import Confidence, Severity
from streamlint.output.document import written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.finding import Finding
    from streamlint.output.outcome import Outcome

_SEVERITY = {Confidence.CERTAIN: "critical", Confidence.LIKELY: "major", Confidence.POSSIBLE: "minor"}


def render(outcome: Outcome) -> str:
    entries = [_finding(finding) for finding in outcome.findings]
    entries += [
        _entry("not-analyzed", each.message, each.path, each.line, "major") for each in outcome.errors
    ]
    if outcome.stop is not None:
        entries.append(_entry("stopped", outcome.stop.message, ".", 1, "major"))
    return written(_distinct(entries))


def _finding(finding: Finding) -> dict[str, object]:
    severity = "info" if finding.severity is Severity.ADVICE else _SEVERITY[finding.confidence]
    place = finding.primary
    entry = _entry(finding.code, _description(finding), place.path, place.line, severity)
    return entry | {"fingerprint": finding.fingerprint}


def _description(finding: Finding) -> str:
    """Say all of it: GitLab shows one place and one text."""
    parts = [f"{finding.message} [{finding.confidence.value}]"]
    parts += [f"{related.message} ({related.span.path}:{related.span.line})" for related in finding.elsewhere]
    parts += [f"help: {finding.advice}"] if finding.advice else []
    return "; ".join(parts)


def _entry(check: str, text: str, path: str, line: int, severity: str) -> dict[str, object]:
    identity = "\0".join((check, path, text)).encode("utf-8", "surrogatepass")
    return {
        "check_name": check,
        "description": text,
        "severity": severity,
        "fingerprint": hashlib.sha256(identity).hexdigest()[:16],
        "location": {"path": path, "lines": {"begin": max(line, 1)}},
    }


def _distinct(entries: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Number equal fingerprints: GitLab shows one entry for each."""
    seen: dict[object, int] = {}
    numbered = []
    for entry in entries:
        name = entry["fingerprint"]
        count = seen[name] = seen.get(name, 0) + 1
        numbered.append(entry if count == 1 else entry | {"fingerprint": f"{name}-{count}"})
    return numbered
