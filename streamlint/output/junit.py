"""The ``junit`` form: XML that CI servers show as test results. A file is a suite, a finding a failure.

The elements are those of https://github.com/testmoapp/junitxml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from streamlint.characters import for_xml
from streamlint.output.text import told

if TYPE_CHECKING:
    from streamlint.finding import Finding, SourceError
    from streamlint.output.outcome import Outcome

_NAME = "streamlint"


def render(outcome: Outcome) -> str:
    root = ET.Element("testsuites", name=_NAME)
    paths = {finding.primary.path for finding in outcome.findings} | {each.path for each in outcome.errors}
    for path in sorted(paths):
        findings = [finding for finding in outcome.findings if finding.primary.path == path]
        errors = [error for error in outcome.errors if error.path == path]
        suite = _suite(root, path, len(findings), len(errors))
        for finding in findings:
            _finding(suite, finding)
        for error in errors:
            _error(suite, error)
    if outcome.stop is not None:
        _failed(_case(_suite(root, _NAME, 0, 1), "stopped", 1), "error", "stopped", outcome.stop.message)
    elif not len(root):
        _case(_suite(root, _NAME, 0, 0), "no findings", 1)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _suite(root: ET.Element, path: str, failures: int, errors: int) -> ET.Element:
    tests = max(failures + errors, 1)
    counts = {"tests": str(tests), "failures": str(failures), "errors": str(errors), "skipped": "0"}
    return ET.SubElement(root, "testsuite", {"name": for_xml(path), **counts})


def _finding(suite: ET.Element, finding: Finding) -> None:
    place = finding.primary
    case = _case(suite, f"{finding.code} {finding.name}", place.line, finding.function)
    said = "\n".join(told(finding))
    _failed(case, "failure", finding.code, finding.message, f"{place}: {said}")


def _error(suite: ET.Element, error: SourceError) -> None:
    _failed(_case(suite, "not analyzed", error.line), "error", "not analyzed", error.message)


def _case(suite: ET.Element, name: str, line: int, function: str = "") -> ET.Element:
    path = suite.attrib["name"]
    where = {"classname": for_xml(function) or path, "file": path, "line": str(max(line, 1))}
    return ET.SubElement(suite, "testcase", {"name": for_xml(name), **where})


def _failed(case: ET.Element, kind: str, what: str, message: str, said: str = "") -> None:
    ET.SubElement(case, kind, {"type": what, "message": for_xml(message)}).text = for_xml(said or message)
