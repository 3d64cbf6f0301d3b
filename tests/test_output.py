"""The forms of output, from the same findings."""

from __future__ import annotations

import gzip
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from streamlint.files import SourceFiles
from streamlint.finding import (
    Confidence,
    Finding,
    Related,
    Severity,
    SourceError,
    Statistics,
)
from streamlint.output import Format, Outcome, render, text
from streamlint.output.outcome import Stop
from streamlint.output.sarif import MOST_RESULTS
from streamlint.output.style import Style
from streamlint.settings.catalog import catalog
from streamlint.source import Span
from tests.cli_support import RULES, SOURCE, finding

HERE = Path(__file__).parent


def outcome(*findings: Finding, text: str = SOURCE, errors: tuple[SourceError, ...] = ()) -> Outcome:
    sources = SourceFiles(Path("/nowhere"), {"train.py": text.encode()})
    return Outcome(findings, errors, 3, 2, 0.12345, sources, RULES, Statistics())


def show(form: Format, *findings: Finding, text: str = SOURCE) -> str:
    return render(form, outcome(*findings, text=text), Style())


def test_full() -> None:
    assert (
        show(Format.FULL, finding())
        == """\
SL101 [likely] `batch` is read on the current stream while `copy` may still be writing it
 --> train.py:8:8
  |
4 | with torch.cuda.stream(copy):
5 |     batch = host.to("cuda", non_blocking=True)
  |             ---------------------------------- written here on `copy`
...
8 | loss = model(batch)
  |        ^^^^^^^^^^^^ read here on the current stream
9 | print(loss)
  |
  = help: call `torch.cuda.current_stream().wait_stream(copy)` before the read

"""
    )


def full(text: str, *spans: tuple[Span, str]) -> list[str]:
    """Return the rows of a frame, without headline and help; the first place is the primary one."""
    (first, label), *others = spans
    made = replace(finding(), primary=first, label=label, help="", related=tuple(Related(*o) for o in others))
    return show(Format.FULL, made, text=text).rstrip("\n").split("\n")[2:]


def test_two_places_on_one_line() -> None:
    places = (Span("train.py", 1, 0, 1, 3), "filled again"), (Span("train.py", 1, 9, 1, 12), "read here")
    assert full("buf.copy_(src)", *places) == [
        "  |",
        "1 | buf.copy_(src)",
        "  | ^^^ filled again",
        "  |          --- read here",
    ]


def test_a_place_of_several_lines_is_marked_at_both_ends() -> None:
    text = "total = reduce(\n    a,\n    b,\n    c,\n)\nprint(total)\n"
    assert full(text, (Span("train.py", 1, 8, 5, 1), "here")) == [
        "  |",
        "1 | total = reduce(",
        "  |         ^^^^^^^",
        "2 |     a,",
        "3 |     b,",
        "4 |     c,",
        "5 | )",
        "  | ^ here",
        "6 | print(total)",
    ]


def test_another_file_gets_its_own_frame() -> None:
    other = Related(Span("lib/copy.py", 12, 4, 12, 9), "written here")
    rows = show(Format.FULL, replace(finding(), related=(other,))).splitlines()
    assert "  ::: lib/copy.py:12:5" in rows
    assert "   = lib/copy.py:12:5: written here" in rows, "a file that is gone still has its place named"


def test_a_line_that_is_not_there_is_named() -> None:
    assert full("x = 1\n", (Span("train.py", 9, 0, 9, 1), "here")) == ["   |", "   = train.py:9:1: here"]


def underlined(text: str, start: int, end: int) -> tuple[str, str]:
    _, shown, marks = full(text, (Span("train.py", 1, start, 1, end), ""))
    return shown[4:], marks[4:]


@pytest.mark.parametrize(
    ("text", "start", "end", "shown", "marks"),
    [
        ("\tx = y", 1, 2, "    x = y", "    ^"),
        ("x\t= y", 2, 3, "x   = y", "    ^"),
        ("值 = y", 4, 5, "值 = y", "     ^"),
        ("值 = y", 0, 1, "值 = y", "^^"),
        ("e\u0301 = y", 5, 6, "e\u0301 = y", "    ^"),
        ("x = y", 5, 5, "x = y", "     ^"),
        ("x = '\x1b[31m' + y", 14, 15, "x = '␛[31m' + y", "              ^"),
        ("x = '\u202e' + y", 10, 11, "x = '\ufffd' + y", "          ^"),
    ],
)
def test_underlines_stand_under_what_is_seen(text: str, start: int, end: int, shown: str, marks: str) -> None:
    assert underlined(text, start, end) == (shown, marks)


def test_a_very_long_line_is_cut_around_the_place() -> None:
    text = "x = [" + "1, " * 3000 + "target" + ", 2" * 3000 + "]"
    start = text.index("target")
    shown, marks = underlined(text, start, start + 6)
    assert len(shown) < 130
    assert shown.startswith("... ")
    assert shown.endswith(" ...")
    assert marks.index("^") == shown.index("target")
    assert marks.count("^") == 6


def test_text_from_outside_cannot_control_the_terminal() -> None:
    evil = replace(
        finding(), message="a\x1b[2Jb\nc", help="d\x07", primary=Span("e\x1b\n.py", 1, 0, 1, 1), related=()
    )
    for form in (Format.FULL, Format.CONCISE):
        written = show(form, evil)
        assert "\x1b" not in written
        assert "\x07" not in written
    assert show(Format.CONCISE, evil).count("\n") == 1


def test_colors_change_nothing_but_colors() -> None:
    plain, painted = (render(Format.FULL, outcome(finding()), Style(on)) for on in (False, True))
    assert painted != plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain


def test_concise() -> None:
    assert (
        show(Format.CONCISE, finding())
        == "train.py:8:8: SL101 [likely] `batch` is read on the current stream while `copy` may still be "
        "writing it\n"
    )


def test_the_problem_matcher_in_the_documentation_reads_concise_lines() -> None:
    page = (HERE.parent / "docs" / "editors.md").read_text(encoding="utf-8")
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    (task,) = next(block["tasks"] for block in blocks if "tasks" in block)
    pattern = task["problemMatcher"]["pattern"]
    assert task["args"][:3] == ["check", "--output-format", "concise"]
    sample = re.search(r"```text\n(.*?)\n```", page, re.DOTALL)
    assert sample is not None
    for line, expected in (
        (sample[1], ("src/prefetch.py", "31", "18", "SL101")),
        (show(Format.CONCISE, finding()).rstrip("\n"), ("train.py", "8", "8", "SL101")),
        (show(Format.CONCISE, finding(path="a b:7/t.py")).rstrip("\n"), ("a b:7/t.py", "8", "8", "SL101")),
    ):
        match = re.match(pattern["regexp"], line)
        assert match is not None
        assert tuple(match[pattern[key]] for key in ("file", "line", "column", "code")) == expected
        assert re.match(r"\[\w+\] .+", match[pattern["message"]])


def test_json() -> None:
    broken = SourceError("broken.py", 3, "invalid syntax")
    document = json.loads(render(Format.JSON, outcome(finding(), errors=(broken,)), Style()))
    assert document == {
        "version": 1,
        "findings": [
            {
                "code": "SL101",
                "name": "unordered-read",
                "message": "`batch` is read on the current stream while `copy` may still be writing it",
                "help": "call `torch.cuda.current_stream().wait_stream(copy)` before the read",
                "confidence": "likely",
                "severity": "error",
                "path": "train.py",
                "line": 8,
                "column": 8,
                "end_line": 8,
                "end_column": 20,
                "function": "train.main",
                "fingerprint": "SL101:train.py:8",
                "related": [
                    {
                        "path": "train.py",
                        "line": 5,
                        "column": 13,
                        "end_line": 5,
                        "end_column": 47,
                        "message": "written here on `copy`",
                    }
                ],
            }
        ],
        "errors": [{"path": "broken.py", "line": 3, "message": "invalid syntax"}],
        "summary": {"files": 3, "analyzed": 2, "findings": 1, "seconds": 0.123, "left_out": []},
    }


def sarif(*findings: Finding, errors: tuple[SourceError, ...] = ()) -> dict[str, Any]:
    return sarif_of(outcome(*findings, errors=errors))


def sarif_of(shown: Outcome) -> dict[str, Any]:
    document = json.loads(render(Format.SARIF, shown, Style()))
    schema = json.loads((HERE / "data" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    jsonschema.Draft4Validator(schema).validate(document)
    (run,) = document["runs"]
    assert isinstance(run, dict)
    return run


def test_the_schema_can_refuse() -> None:
    schema = json.loads((HERE / "data" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(schema).validate({"version": "2.1.0", "runs": [{"results": []}]})


def test_sarif_is_valid_and_counts_columns_from_1() -> None:
    run = sarif(finding(), finding("SL901", confidence=Confidence.POSSIBLE, related=()))
    assert run["columnKind"] == "unicodeCodePoints"
    first, second = run["results"]
    assert (first["level"], first["rank"], first["properties"]["confidence"]) == ("warning", 70.0, "likely")
    assert (second["level"], second["rank"]) == ("note", 30.0)
    assert first["partialFingerprints"] == {"streamlint/v1": "SL101:train.py:8"}
    place = first["locations"][0]
    assert place["physicalLocation"]["artifactLocation"] == {"uri": "train.py", "uriBaseId": "%SRCROOT%"}
    assert place["physicalLocation"]["region"] == {
        "startLine": 8,
        "startColumn": 8,
        "endLine": 8,
        "endColumn": 20,
    }
    assert place["logicalLocations"] == [{"fullyQualifiedName": "train.main", "kind": "function"}]
    rules = run["tool"]["driver"]["rules"]
    assert [rules[each["ruleIndex"]]["id"] for each in run["results"]] == ["SL101", "SL901"]
    assert rules[0]["help"]["markdown"] == "Docs of SL101."
    assert "codeFlows" not in second


def test_sarif_code_flow_goes_from_the_earlier_place_to_the_later() -> None:
    (result,) = sarif(finding())["results"]
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    lines = [step["location"]["physicalLocation"]["region"]["startLine"] for step in steps]
    assert lines == [5, 8]
    assert [each["id"] for each in result["relatedLocations"]] == [1]
    assert result["relatedLocations"][0]["message"] == {"text": "written here on `copy`"}


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("a b/ü%.py", "a%20b/%C3%BC%25.py"),
        ("c:/x#1?.py", "c%3A/x%231%3F.py"),
        ("../out.py", "../out.py"),
        ("bad\udcff.py", "bad%FF.py"),
    ],
)
def test_sarif_uris_are_percent_encoded(path: str, uri: str) -> None:
    (result,) = sarif(finding(path=path))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_sarif_errors_are_notifications() -> None:
    (fine,) = sarif()["invocations"]
    assert fine == {"executionSuccessful": True, "toolExecutionNotifications": []}
    (failed,) = sarif(errors=(SourceError("broken.py", 0, "invalid syntax"),))["invocations"]
    assert failed["executionSuccessful"] is False
    (notification,) = failed["toolExecutionNotifications"]
    assert notification["message"] == {"text": "invalid syntax"}
    assert notification["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}


STOP = Stop("SIGINT", 2, 12, 340)
NOT_ALL = "stopped by SIGINT after 12 of 340 files: there may be more to find"


def test_each_form_tells_that_a_run_was_stopped() -> None:
    stopped = replace(outcome(finding()), files=340, stop=STOP)
    document = json.loads(render(Format.JSON, stopped, Style()))
    assert document["errors"] == [{"path": ".", "line": 1, "message": NOT_ALL}]
    assert document["summary"]["stopped"] == {"signal": "SIGINT", "files": 12}
    (invocation,) = sarif_of(stopped)["invocations"]
    assert invocation == {
        "executionSuccessful": False,
        "exitSignalName": "SIGINT",
        "exitSignalNumber": 2,
        "toolExecutionNotifications": [{"level": "error", "message": {"text": NOT_ALL}}],
    }
    assert render(Format.GITHUB, stopped, Style()).splitlines()[-1] == f"::error title=stopped::{NOT_ALL}"
    summary = text.summary(stopped, Style())
    assert summary.startswith("Found 1 finding (1 likely) in 12 files")
    assert summary.endswith(f"This is not all: {NOT_ALL}.\n")


def test_github() -> None:
    odd = replace(
        finding(path="a,b:c.py"),
        message="100 %\nsure",
        severity=Severity.WARNING,
        primary=Span("a,b:c.py", 3, 1, 3, 4),
        related=(),
    )
    errors = (SourceError("broken.py", 3, "invalid syntax"),)
    lines = render(Format.GITHUB, outcome(finding(), odd, errors=errors), Style()).splitlines()
    assert lines == [
        "::warning title=SL101 unordered-read,file=train.py,line=8,endLine=8,col=8,endColumn=20"
        "::`batch` is read on the current stream while `copy` may still be writing it [likely]"
        "%0Atrain.py:5:13: written here on `copy`"
        "%0Ahelp: call `torch.cuda.current_stream().wait_stream(copy)` before the read",
        "::warning title=SL101 unordered-read,file=a%2Cb%3Ac.py,line=3,endLine=3,col=2,endColumn=5"
        "::100 %25%0Asure [likely]"
        "%0Ahelp: call `torch.cuda.current_stream().wait_stream(copy)` before the read",
        "::error title=not analyzed,file=broken.py,line=3::invalid syntax",
    ]


@pytest.mark.parametrize("form", Format)
def test_nothing_found(form: Format) -> None:
    written = show(form)
    if form is Format.JUNIT:
        (suite,) = ET.fromstring(written)  # noqa: S314
        assert [case.attrib["name"] for case in suite] == ["no findings"]
    elif form is Format.GITLAB:
        assert json.loads(written) == []
    elif form is Format.HTML:
        assert "No findings in 3 files" in written
    else:
        assert written == "" or json.loads(written)


def test_gitlab() -> None:
    errors = (SourceError("broken.py", 0, "invalid syntax"),)
    advice = finding("SL901", related=())
    written = render(Format.GITLAB, outcome(finding(), finding(), advice, errors=errors), Style())
    first, same, slow, broken = json.loads(written)
    assert first == {
        "check_name": "SL101",
        "description": "`batch` is read on the current stream while `copy` may still be writing it [likely]; "
        "written here on `copy` (train.py:5); "
        "help: call `torch.cuda.current_stream().wait_stream(copy)` before the read",
        "severity": "major",
        "fingerprint": "SL101:train.py:8",
        "location": {"path": "train.py", "lines": {"begin": 8}},
    }
    assert same == {**first, "fingerprint": "SL101:train.py:8-2"}
    assert slow["severity"] == "info"
    assert (broken["check_name"], broken["severity"]) == ("not-analyzed", "major")
    assert broken["location"] == {"path": "broken.py", "lines": {"begin": 1}}


def test_junit() -> None:
    odd = replace(finding("SL102"), message="a \x00 < \ufffe", function="", related=(), help="")
    errors = (SourceError("broken.py", 3, "invalid syntax"),)
    root = ET.fromstring(render(Format.JUNIT, outcome(finding(), odd, errors=errors), Style()))  # noqa: S314
    broken, train = root
    assert (train.attrib["name"], train.attrib["tests"], train.attrib["failures"]) == ("train.py", "2", "2")
    assert (broken.attrib["errors"], broken[0][0].tag) == ("1", "error")
    case, other = train
    assert case.attrib == {
        "name": "SL101 unordered-read",
        "classname": "train.main",
        "file": "train.py",
        "line": "8",
    }
    (failure,) = case
    assert failure.attrib["message"].startswith("`batch` is read")
    assert failure.text is not None
    assert "train.py:5:13: written here on `copy`" in failure.text
    assert other[0].attrib["message"] == "a \u2400 < \ufffd"


def test_sarif_messages_link_to_their_places_and_hold_the_help() -> None:
    (result,) = sarif(replace(finding(), message="`streams[0]` waits"))["results"]
    assert result["message"]["text"] == (
        "`streams\\[0\\]` waits ([written here on `copy`](1)).\n\n"
        "Help: call `torch.cuda.current_stream().wait_stream(copy)` before the read"
    )


@pytest.mark.parametrize(
    ("confidence", "level"), [*zip(Confidence, ("note", "warning", "error"), strict=True)]
)
def test_sarif_levels_are_how_sure_a_finding_is(confidence: Confidence, level: str) -> None:
    (result,) = sarif(finding(confidence=confidence))["results"]
    assert result["level"] == level


def test_sarif_rules_are_within_what_github_takes() -> None:
    document = render(Format.SARIF, replace(outcome(), rules=catalog()), Style())
    rules = json.loads(document)["runs"][0]["tool"]["driver"]["rules"]
    for rule in rules:
        assert len(rule["name"]) <= 255
        assert len(rule["properties"]["tags"]) <= 20
        for key in ("shortDescription", "fullDescription"):
            assert 10 < len(rule[key]["text"]) <= 1024
        assert rule["fullDescription"]["text"] != rule["shortDescription"]["text"], rule["id"]


def test_sarif_of_any_size_is_taken() -> None:
    """25,000 results and 10 MB zipped; of a result 100 places are shown, and more than 1,000 refused."""
    chance = random.Random(3)  # noqa: S311  (no secret)

    def found(number: int) -> Finding:
        confidence = Confidence.CERTAIN if number == MOST_RESULTS + 1 else Confidence.POSSIBLE
        path = f"{chance.getrandbits(64):x}/{number}.py"
        return replace(finding(path=path, confidence=confidence), message=f"{chance.getrandbits(256):x}")

    (places,) = finding().related
    many = replace(found(0), related=(places,) * 2_000)
    document = render(Format.SARIF, outcome(many, *map(found, range(1, MOST_RESULTS + 2))), Style())
    assert len(gzip.compress(document.encode(), compresslevel=1)) < 10_000_000, "however badly it is zipped"
    (run,) = json.loads(document)["runs"]
    assert len(run["results"]) == MOST_RESULTS
    assert (run["results"][0]["level"], run["results"][-1]["level"]) == ("note", "error")
    (notice,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notice["message"]["text"].startswith("2 findings are left out, the least sure")
    (flow,) = run["results"][0]["codeFlows"]
    assert len(run["results"][0]["relatedLocations"]) == len(flow["threadFlows"][0]["locations"]) - 1 == 100
    assert run["results"][0]["message"]["text"].count("](") == 100


def test_a_program_of_which_nothing_was_seen_may_have_used_the_gpu() -> None:
    """CuPy without CUPTI: that nothing was seen does not tell that there was nothing."""
    told = text.observation(outcome(), 0, "no CUPTI library (libcupti.so) is installed", Style())
    assert told.splitlines() == [
        "Nothing was observed.",
        "Only PyTorch and cuda-python were seen: no CUPTI library (libcupti.so) is installed.",
    ]
    assert text.observation(outcome(), 0, "", Style()) == "Nothing was observed: the program used no GPU."
