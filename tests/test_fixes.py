"""Fixes hold what they promise: on all fixtures, and on files as users have them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from streamlint import cli
from streamlint.finding import Confidence, Edit, Fix, Severity, leading
from streamlint.fixes.edits import applied, compatible, diff
from streamlint.run import engine
from streamlint.source import Span
from tests.expectations import FIXTURES, fixture_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from streamlint.finding import Finding, Report

ROOT = FIXTURES.parent
RACE = """\
import torch


def total(x: torch.Tensor):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2  # twice
    # what the caller wants
    return y.sum()
"""
MENDED = RACE.replace("    # what", "    torch.cuda.current_stream().wait_stream(side)\n    # what")


# ----------------------------------------------------------------------------- all fixtures


def analyzed(file: Path, text: str | None = None) -> Report:
    overlay = {} if text is None else {file: text.encode()}
    return engine.analyze(ROOT, [file], engine.Settings(evidence=False), None, overlay)


def is_shown(finding: Finding) -> bool:
    return finding.confidence is not Confidence.POSSIBLE or finding.severity is Severity.ADVICE


def what(finding: Finding) -> tuple[str, str, str]:
    return finding.code, finding.function, finding.message


def mended(findings: tuple[Finding, ...]) -> list[Fix]:
    return compatible(each.fixes[0] for each in findings if each.fixes)


@pytest.fixture(scope="module")
def shares() -> Mapping[str, tuple[int, int, int]]:
    """Of each rule's findings in the fixtures: how many there are, have a fix, and have a safe one."""
    counted: dict[str, Counter[str]] = {"all": Counter(), "fixed": Counter(), "safe": Counter()}
    for file in fixture_files():
        before = analyzed(file)
        shown = leading([each for each in before.findings if is_shown(each)])
        counted["all"].update(each.code for each in shown)
        counted["fixed"].update(each.code for each in shown if each.fixes)
        counted["safe"].update(each.code for each in shown if any(fix.safe for fix in each.fixes))
        text = file.read_text(encoding="utf-8")
        for _ in range(5):
            fixes = mended(shown)
            if not fixes:
                break
            known = Counter(map(what, before.findings))
            todo = Counter(what(each) for each in shown if each.fixes and each.fixes[0] in fixes)
            text = applied(text, fixes)
            before = analyzed(file, text)
            assert not before.errors, f"{file}: {before.errors}"
            left = Counter(map(what, before.findings))
            still = [each for each in todo if left[each] >= known[each]]
            assert not still, f"{file}: still there after its fix: {still}"
            shown = leading([each for each in before.findings if is_shown(each)])
            new = [
                each
                for each in shown
                if left[what(each)] > known[what(each)] and each.severity is not Severity.ADVICE
            ]
            assert not new, f"{file}: new after a fix: {[(str(each.primary), what(each)) for each in new]}"
        assert not mended(shown), f"{file}: fixes without end"
    return {
        code: (counted["all"][code], counted["fixed"][code], counted["safe"][code])
        for code in sorted(counted["all"])
    }


def test_fixes_of_the_fixtures_hold(shares: Mapping[str, tuple[int, int, int]]) -> None:
    every = [shares[code] for code in shares if not code.startswith("SL9")]
    total, fixed = sum(each[0] for each in every), sum(each[1] for each in every)
    assert fixed / total >= 0.75, shares


# ----------------------------------------------------------------------------- edits


def put(line: int, text: str) -> Fix:
    return Fix("put", (Edit(Span("a.py", line, 0, line, 0), text),), safe=True)


def test_equal_edits_are_made_once_and_others_at_one_place_wait() -> None:
    fixes = [put(2, "x\n"), put(2, "x\n"), put(2, "y\n"), put(3, "z\n")]
    assert applied("a\nb\nc\n", compatible(fixes)) == "a\nx\nb\nz\nc\n"


def test_line_ends_stay() -> None:
    assert applied("a\r\nb\r\n", [put(2, "x\n")]) == "a\r\nx\r\nb\r\n"


def test_a_line_behind_the_last_that_has_no_end() -> None:
    assert applied("a\nb", [put(3, "\nx")]) == "a\nb\nx"


def test_a_diff_tells_that_the_last_line_has_no_end() -> None:
    assert diff("a.py", "a\nb", "a\nx\nb").endswith("\n+x\n b\n\\ No newline at end of file\n")


# ----------------------------------------------------------------------------- the command line


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").touch()
    written(tmp_path / "code.py", RACE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(file: Path, text: str | bytes) -> None:
    """Writes a file as one that has been there for a while."""
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(file, (1_700_000_000, 1_700_000_000))


def run(*arguments: str) -> int:
    return cli.main(["check", *arguments, "--no-cache"])


def test_fix_adds_the_wait_and_leaves_the_rest(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("code.py", "--fix") == 0
    assert (project / "code.py").read_text() == MENDED
    told = capsys.readouterr()
    assert "No findings" in told.out
    assert "Fixed 1 finding (SL101 1)." in told.err
    assert run("code.py", "--fix") == 0
    assert (project / "code.py").read_text() == MENDED


def test_diff_changes_nothing_and_can_be_applied(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("code.py", "--diff") == 1
    assert (project / "code.py").read_text() == RACE
    patch = capsys.readouterr().out
    subprocess.run(["patch", "-p0"], input=patch, text=True, check=True, cwd=project, capture_output=True)
    assert (project / "code.py").read_text() == MENDED
    assert run("code.py", "--diff") == 0


def test_line_ends_and_encoding_of_a_file_stay(project: Path) -> None:
    text = "# -*- coding: latin-1 -*-\r\n# Größe\r\n" + RACE.replace("\n", "\r\n")
    written(project / "code.py", text.encode("latin-1"))
    assert run("code.py", "--fix") == 0
    wanted = "# -*- coding: latin-1 -*-\r\n# Größe\r\n" + MENDED.replace("\n", "\r\n")
    assert (project / "code.py").read_bytes() == wanted.encode("latin-1")


def test_a_generated_file_is_left_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(project / "code.py", "# @generated by a tool\n" + RACE)
    assert run("code.py", "--fix") == 2
    assert "wait_stream(side)" not in (project / "code.py").read_text()
    assert "code.py: not fixed: it says that it is generated" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anything")
def test_a_file_that_cannot_be_written_is_an_error(project: Path) -> None:
    (project / "code.py").chmod(0o444)
    assert run("code.py", "--fix") == 2
    assert (project / "code.py").read_text() == RACE


def test_a_line_stands_where_its_names_are_bound_on_every_way(project: Path) -> None:
    """Behind the branch `None.wait_stream(...)` would fail where there is no stream."""
    text = """\
import torch


def total(x: torch.Tensor, side: torch.cuda.Stream | None = None):
    if side is not None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
    else:
        y = x * 3
    return y.sum()
"""
    written(project / "code.py", text)
    assert run("code.py", "--fix", "--min-confidence", "possible") == 0
    wait = "        torch.cuda.current_stream().wait_stream(side)\n"
    assert (project / "code.py").read_text() == text.replace("    else:", f"{wait}    else:")


def test_options_that_do_not_go_together(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("code.py", "--unsafe-fixes") == 2
    assert run("-", "--fix") == 2
    assert "--unsafe-fixes needs --fix or --diff" in capsys.readouterr().err
    assert (project / "code.py").read_text() == RACE
