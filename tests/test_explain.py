"""``streamlint explain``: a rule's documentation, or how the finding at a place goes wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from streamlint.cli import main
from tests.test_confirm_html import SOURCE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (tmp_path / "source.py").write_text(SOURCE, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("STREAMLINT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], place: str, status: int = 0) -> str:
    assert main(["explain", place]) == status
    captured = capsys.readouterr()
    return captured.out if not status else captured.err


@pytest.mark.parametrize("place", ["source.py:10", "source.py:10:12", "./source.py:10", "source.py:9"])
def test_a_finding_is_told_by_either_of_its_places(
    project: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = told(capsys, place)
    assert out.startswith("SL101 [certain] `x` is read on the current stream")
    assert "  A  x.fill_(7.0)\n     writes `x`; on `side` (non-blocking stream), source.py:9\n" in out
    assert "makes the current stream wait for `side` between A and B." in out
    assert "5. B has read `x` as it was before A, or half of it. A runs too late.\n" in out
    assert "What would mend it\n  Record an event on `side`" in out
    assert "What was assumed" not in out
    assert max(map(len, out.splitlines()[1:])) <= 100


def test_a_path_of_elsewhere(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "A runs too late" in told(capsys, f"{project / 'source.py'}:10")


def test_where_nothing_is_found_it_tells_where_something_is(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no finding at source.py:3; there are source.py:10 (SL101)" in told(capsys, "source.py:3", 2)
    (project / "clean.py").write_text("x = 1\n", "utf-8")
    assert "nor anywhere else in the file" in told(capsys, "clean.py:1", 2)


@pytest.mark.parametrize(
    ("place", "reason"),
    [("gone.py:3", "gone.py is not a file"), ("broken.py:1", "broken.py:2: "), ("SL999", "unknown rule")],
)
def test_what_cannot_be_told(
    project: Path, place: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "broken.py").write_text("import torch\ndef f(:\n", "utf-8")
    assert reason in told(capsys, place, 2)


def test_a_rule_is_told_by_code_and_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "SL101") == told(capsys, "unordered-read")


def test_a_place_in_a_notebook_is_that_of_its_cell(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [["import torch\n"], SOURCE.splitlines(keepends=True)[1:]]
    document = {
        "cells": [{"cell_type": "code", "source": cell, "metadata": {}, "outputs": []} for cell in cells],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (project / "book.ipynb").write_text(json.dumps(document), "utf-8")
    out = told(capsys, "book.ipynb:cell 2:9")
    assert "book.ipynb:cell 2:8" in out
    assert "A runs too late" in out


def test_a_narrow_terminal_has_narrow_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """But code, tables and addresses, which nobody can break."""
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code.py").write_text(
        "import torch\n\n\ndef run(a_rather_long_name: torch.Tensor):\n    side = torch.cuda.Stream()\n"
        "    with torch.cuda.stream(side):\n        y = a_rather_long_name * 2\n    return y.sum()\n"
    )
    for what in ("code.py:8", "SL401", "SL106"):
        assert main(["explain", what]) == 0
        lines = capsys.readouterr().out.split("\n")
        fences = [number for number, line in enumerate(lines) if line.startswith("```")]
        code = {n for a, b in zip(fences[::2], fences[1::2], strict=True) for n in range(a, b)}
        wide = [line for n, line in enumerate(lines) if len(line) > 60 and n not in code]
        assert [line for line in wide if not line.startswith("|") and "https://" not in line] == []
