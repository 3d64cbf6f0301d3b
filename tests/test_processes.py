"""The result of a run does not depend on the number of processes."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from streamlint.finding import SourceError, leading
from streamlint.run import engine, parallel, pool
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

BASE = """\
import torch

class Stage:
    def __init__(self):
        self.stream = torch.cuda.Stream()

    def _scaled(self, x):
        with torch.cuda.stream(self.stream):
            y = x * 2
        torch.cuda.current_stream().wait_stream(self.stream)
        return y

    def first(self, weights: torch.Tensor):
        return self._scaled(weights)

    def second(self, batch: torch.Tensor):
        return self._scaled(batch)
"""
DERIVED = """\
import torch
from base import Stage

class Late(Stage):
    def third(self, again: torch.Tensor):
        return self._scaled(again)
"""


def shown(root: Path, jobs: int) -> list[tuple[str, str, str, str]]:
    files = written(root, {"base.py": BASE, "derived.py": DERIVED, "another.py": DERIVED})
    report = engine.analyze(root, files, engine.Settings(jobs=jobs))
    return [(f.code, str(f.primary), f.message, f.fingerprint) for f in leading(report.findings)]


def test_one_finding_for_all_callers_in_any_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the methods that lead to one place, in one file and in several, the same one is shown."""
    monkeypatch.setattr(parallel, "WORTH_A_POOL", 1)
    alone = shown(tmp_path, 1)
    assert [code for code, *_ in alone] == ["SL101", "SL401"]
    assert shown(tmp_path, 2) == alone


def test_few_or_mere_text_is_not_worth_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", never)
    files = written(tmp_path, {f"plain{number}.py": "x = 1\n" * 1000 for number in range(30)})
    files += written(tmp_path, {f"gpu{number}.py": BASE for number in range(3)})
    assert engine.analyze(tmp_path, files, engine.Settings(jobs=2)).analyzed == 3


def test_a_file_that_no_worker_gets_through_is_an_error_of_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = written(tmp_path, {"base.py": BASE, "derived.py": DERIVED})
    given = {files[0]: engine.FileResult(analyzed=True), files[1]: pool.Lost("it was too much")}
    monkeypatch.setattr(pool, "count", lambda *_: 2)
    monkeypatch.setattr(pool, "answers", lambda *_: (pair for pair in given.items()))
    monkeypatch.setattr(parallel, "WORTH_A_POOL", 1)
    report = engine.analyze(tmp_path, files, engine.Settings(jobs=2))
    assert report.errors == (SourceError("derived.py", 0, "it was too much"),)
    assert report.analyzed == 1
