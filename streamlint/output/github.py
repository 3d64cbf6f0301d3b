"""The ``github`` form: workflow commands that GitHub Actions shows as annotations.

The escapes are those of ``@actions/core``: https://github.com/actions/toolkit (packages/core/src/command.ts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.characters import visible
from streamlint.finding import Confidence, Severity
from streamlint.output.text import told

if TYPE_CHECKING:
    from streamlint.finding import Finding, SourceError
    from streamlint.output.outcome import Outcome

_COMMAND = {Confidence.CERTAIN: "error", Confidence.LIKELY: "warning", Confidence.POSSIBLE: "notice"}

_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}


def render(outcome: Outcome) -> str:
    lines = [_finding(finding) for finding in outcome.findings]
    lines += [_error(error) for error in outcome.errors]
    lines += [_command("error", {"title": "stopped"}, outcome.stop.message)] if outcome.stop else []
    return "".join(f"{line}\n" for line in lines)


def _finding(finding: Finding) -> str:
    place = finding.primary
    properties: dict[str, str | int] = {
        "title": f"{finding.code} {finding.name}",
        "file": place.path,
        "line": place.line,
        "endLine": place.end_line,
        # Columns make sense to GitHub only for a place on one line.
        **({"col": place.col + 1, "endColumn": place.end_col + 1} if place.line == place.end_line else {}),
    }
    command = "notice" if finding.severity is Severity.ADVICE else _COMMAND[finding.confidence]
    return _command(command, properties, "\n".join(told(finding)))


def _error(error: SourceError) -> str:
    return _command(
        "error", {"title": "not analyzed", "file": error.path, "line": max(error.line, 1)}, error.message
    )


def _command(name: str, properties: dict[str, str | int], message: str) -> str:
    written = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::{name} {written}::{_data(message)}"


def _data(text: str) -> str:
    return "".join(_ESCAPES.get(char) or visible(char) for char in text)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
