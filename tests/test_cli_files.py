"""Files that a run writes and reads: reports and baselines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from streamlint.output import Format
from tests.cli_support import SOURCE, FakeEngine, finding, run

if TYPE_CHECKING:
    from pathlib import Path

BASELINE = '{"version": 1, "findings": [{"fingerprint": "0123456789abcdef", "code": "SL101"}]}'
Capture = pytest.CaptureFixture[str]


def test_output_file(project: Path, engine: FakeEngine, capsys: Capture) -> None:
    engine.findings = [finding()]
    result = run(capsys, "train.py", "--output-format", "json", "--output", "report.json")
    assert (result.status, result.out) == (1, "")
    assert json.loads((project / "report.json").read_text())["summary"]["findings"] == 1
    failed = run(capsys, "train.py", "--output", "no/such/folder/report.json")
    assert failed.status == 2
    assert "cannot write no/such/folder/report.json: No such file or directory" in failed.err


def test_baseline_hides_what_is_known_and_counts_it(
    project: Path, engine: FakeEngine, capsys: Capture
) -> None:
    engine.findings = [finding()]
    written = run(capsys, "train.py", "--write-baseline", "known.json")
    assert written.status == 0
    engine.findings.append(finding("SL102"))
    result = run(capsys, "train.py", "--baseline", "known.json")
    assert result.status == 1
    assert "SL102" in result.out
    assert "SL101" not in result.out.replace("explain SL101", "")
    assert "1 known finding hidden by the baseline." in result.out
    run(capsys, "train.py", "--baseline", "known.json", "--write-baseline", "known.json")
    assert run(capsys, "train.py", "--baseline", "known.json").status == 0


def test_what_a_baseline_knows_and_nobody_finds_is_told_and_dropped(
    project: Path, engine: FakeEngine, capsys: Capture
) -> None:
    (project / "other.py").write_text(SOURCE)
    engine.findings = [finding(), finding("SL102"), finding(path="other.py"), finding(path="gone.py")]
    run(capsys, ".", "--write-baseline", "known.json")
    engine.findings = [finding(), finding(path="other.py")]
    known = (project / "known.json").read_text()
    result = run(capsys, "train.py", "--baseline", "known.json")
    assert "2 entries of the baseline found no more; `--prune-baseline` drops what is gone." in result.out
    part = run(capsys, "train.py", "--baseline", "known.json", "--select", "SL101")
    assert "1 entry of the baseline found no more" in part.out, "SL102 was not looked for"
    assert (project / "known.json").read_text() == known
    pruned = run(capsys, "train.py", "--baseline", "known.json", "--prune-baseline")
    assert (pruned.status, pruned.err) == (0, "Dropped 2 findings from known.json.\n")
    assert "found no more" not in pruned.out
    entries = json.loads((project / "known.json").read_text())["findings"]
    assert [each["path"] for each in entries] == ["other.py", "train.py"]
    assert run(capsys, "train.py", "--prune-baseline").err.endswith("--prune-baseline needs --baseline\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "known.json: No such file"),
        ('{"version": 1,\n"findings": [', "known.json:2: not a baseline"),
        ("[]", "known.json:1: not a baseline of version 1"),
        ('{\n"findings": [[{}], 2],\n"version": 2}', "known.json:3: not a baseline of version 1"),
        ("{\n\xff", "known.json:2: not a baseline: not UTF-8"),
        (
            '{"version": 1, "findings": [{"fingerprint": "a"},\n {}]}',
            "known.json:2: entry 2 of its findings has no",
        ),
    ],
)
def test_a_bad_baseline_is_an_error(
    project: Path, engine: FakeEngine, capsys: Capture, content: str | None, said: str
) -> None:
    if content is not None:
        (project / "known.json").write_bytes(content.encode("latin-1"))
    result = run(capsys, "train.py", "--baseline", "known.json")
    assert result.status == 2
    assert said in result.err


@pytest.mark.parametrize("option", ["--output", "--write-baseline"])
def test_source_is_not_written_over(project: Path, engine: FakeEngine, capsys: Capture, option: str) -> None:
    """``check --output train.py``, where the name of the report was left out."""
    before = (project / "train.py").read_text()
    result = run(capsys, option, "train.py")
    assert result.status == 2
    assert f"argument {option}: `train.py` is source" in result.err
    assert (project / "train.py").read_text() == before


@pytest.mark.parametrize("form", [each.value for each in Format])
@pytest.mark.parametrize("found", [True, False])
def test_a_report_takes_the_place_of_an_older_one(
    project: Path, engine: FakeEngine, capsys: Capture, form: str, found: bool
) -> None:
    engine.findings = [finding()] if found else []
    for _ in range(2):
        result = run(capsys, "train.py", "--output-format", form, "--output", "report", "--color", "always")
        assert result.status == found, result.err


@pytest.mark.parametrize("content", ["[project]\n", "{}", "[1]", "<svg/>", "SL101\n", BASELINE])
def test_nothing_else_is_written_over(
    project: Path, engine: FakeEngine, capsys: Capture, content: str
) -> None:
    """``check . --output pyproject.toml``"""
    (project / "pyproject.toml").write_text(content)
    result = run(capsys, "train.py", "--output", "pyproject.toml")
    assert result.status == 2
    assert "`pyproject.toml` is there, and nothing that streamlint wrote" in result.err
    assert (project / "pyproject.toml").read_text() == content


def test_what_is_no_baseline_is_not_written_over(project: Path, engine: FakeEngine, capsys: Capture) -> None:
    (project / "notes.json").write_text("{}")
    assert run(capsys, "train.py", "--write-baseline", "notes.json").status == 2
    assert (project / "notes.json").read_text() == "{}"
    (project / "notes.json").write_text("")
    assert run(capsys, "train.py", "--write-baseline", "notes.json").status == 0
