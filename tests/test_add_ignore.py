"""``--add-ignore``: comments that a person did not have to write."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from streamlint.settings.catalog import vocabulary
from streamlint.settings.ignores import with_comments
from streamlint.source import Span
from tests.cli_support import RULES, FakeEngine, finding, install, run

Capture = pytest.CaptureFixture[str]
FIXTURES = Path(__file__).parent.parent / "fixtures"
ADDED = b"# streamlint: ignore[SL101] idle here"
HIDDEN = """\
import torch

def join():
    side = torch.cuda.Stream()
    x = torch.ones(1 << 20, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    z = y + 1
    w = y.sum()
    return z, w
"""


def written(tmp_path: Path, content: bytes, *places: tuple[str, int]) -> bytes:
    path = tmp_path / "a.py"
    path.write_bytes(content)
    findings = [replace(finding(code), primary=Span("a.py", line, 0, line, 1)) for code, line in places]
    return with_comments(path, findings, "idle here", vocabulary(RULES))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"y = x\n", ADDED + b"\ny = x\n"),
        (b"if a:\n\ty = x", b"if a:\n\t" + ADDED + b"\n\ty = x"),
        (b"if a:\r\n  y = f(\r\n x)\r\n", b"if a:\r\n  " + ADDED + b"\r\n  y = f(\r\n x)\r\n"),
        (b"\xef\xbb\xbfy = '\x0c'\n", b"\xef\xbb\xbf" + ADDED + b"\ny = '\x0c'\n"),
        (
            b"# -*- coding: latin-1 -*-\nn = '\xe9'\n",
            b"# -*- coding: latin-1 -*-\n" + ADDED + b"\nn = '\xe9'\n",
        ),
        (
            b"a\ny = x  # streamlint: ignore[SL102] why\n",
            b"a\ny = x  # streamlint: ignore[SL102, SL101] why\n",
        ),
        (
            b"#\n# streamlint: ignore[unordered-write] why\ny = x\n",
            b"#\n# streamlint: ignore[unordered-write, SL101] why\ny = x\n",
        ),
    ],
)
def test_a_comment_stands_above_its_statement(tmp_path: Path, before: bytes, after: bytes) -> None:
    last = before.count(b"\n") + (not before.endswith(b"\n"))
    assert written(tmp_path, before, ("SL101", last)) == after


def test_one_comment_for_a_statement(tmp_path: Path) -> None:
    places = ("SL102", 3), ("SL101", 2), ("SL901", 4)
    assert written(tmp_path, b"y = f(\n    x,\n    z)\nw = 1\n", *places) == (
        b"# streamlint: ignore[SL101, SL102] idle here\ny = f(\n    x,\n    z)\n"
        b"# streamlint: ignore[SL901] idle here\nw = 1\n"
    )


def test_the_fixtures_are_silent_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in ("sl101_unordered_read", "sl202_host_write_during_copy", "sl401_missing_record_stream"):
        shutil.copy(FIXTURES / "torch" / f"{name}.py", tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert run(capsys, ".").status == 1
    done = run(capsys, ".", "--add-ignore", "wrong on purpose")
    assert (done.status, done.out) == (0, "")
    assert done.err.startswith("Wrote comments for ")
    assert done.err.endswith(" findings into 3 files.\n")
    silent = run(capsys, ".")
    assert silent.status == 0, silent.out


def test_standard_input_is_no_file(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    install(monkeypatch)
    result = run(capsys, "-", "--add-ignore", "because")
    assert (result.status, result.err) == (
        2,
        "streamlint: error: --add-ignore writes into files: `-` is none\n",
    )


@pytest.mark.parametrize(
    "reason", ["", " \n", "one\nimport os", "one\rtwo", "a\x0cb", "bell\x07", "half\ud800"]
)
def test_a_reason_is_one_line_of_text(
    project: Path, engine: FakeEngine, capsys: Capture, reason: str
) -> None:
    engine.findings = [finding()]
    before = (project / "train.py").read_bytes()
    result = run(capsys, "train.py", "--add-ignore", reason)
    assert result.status == 2
    assert "reason" in result.err
    assert (project / "train.py").read_bytes() == before


def test_the_line_end_is_that_of_the_file(tmp_path: Path) -> None:
    assert written(tmp_path, b"x = 1\r\ny = x", ("SL101", 2)) == b"x = 1\r\n" + ADDED + b"\r\ny = x"


def test_one_run_ignores_what_was_hidden_too(project: Path, capsys: Capture) -> None:
    """The second read tells of the same missing order as the first, and is shown when that is silent."""
    (project / "train.py").write_text(HIDDEN)
    assert run(capsys, "train.py", "--no-cache", "--add-ignore", "known").status == 0
    silent = run(capsys, "train.py", "--no-cache")
    assert (silent.status, silent.out.startswith("No findings")) == (0, True), silent.out


def test_nothing_is_written_if_one_file_cannot_be(project: Path, engine: FakeEngine, capsys: Capture) -> None:
    (project / "a.ipynb").write_text('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}')
    engine.findings = [finding(), finding(path="a.ipynb")]
    before = (project / "train.py").read_bytes()
    result = run(capsys, ".", "--add-ignore", "known")
    assert (result.status, (project / "train.py").read_bytes()) == (2, before)
    assert "a.ipynb: no comments are written into a notebook" in result.err
