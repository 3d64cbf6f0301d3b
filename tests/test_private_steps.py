"""Private steps of a class are judged through the methods that call them; where these were cut, in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamlint.finding import Confidence
from streamlint.interp.entries import runs
from streamlint.interp.state.budgets import LIMITS
from streamlint.run import engine
from tests.test_tree import lines, written

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PROJECTED = """\
import torch

class Projected:
    def __init__(self):
        self.keys, self.gates = torch.cuda.Stream(), torch.cuda.Stream()

    def _project(self, x: torch.Tensor):
        current = torch.cuda.current_stream()
        self.keys.wait_stream(current)
        self.gates.wait_stream(current)
        with torch.cuda.stream(self.keys):
            key = x * 2
        with torch.cuda.stream(self.gates):
            gate = x * 3
        current.wait_stream(self.keys)
        return key, gate

    def forward(self, x: torch.Tensor, replays):
        if replays(x):
            y = torch.empty_like(x)
            return replays.run(x, y)
        return self._forward(x)

    def _forward(self, x: torch.Tensor):
{work}
        key, gate = self._project(x)
        {join}
        with torch.cuda.stream(self.keys):
            total = gate.sum()
        torch.cuda.current_stream().wait_stream(self.keys)
        return key.sum() + total
"""
JOIN = "self.keys.wait_stream(self.gates)"


def test_a_step_that_stands_before_its_caller(tmp_path: Path) -> None:
    files = written(tmp_path, {"run.py": PROJECTED.format(work="", join=JOIN)})
    assert lines(tmp_path, files) == []


def test_the_caller_that_forgets_the_join(tmp_path: Path) -> None:
    files = written(tmp_path, {"run.py": PROJECTED.format(work="", join="pass")})
    assert [(code, line) for code, _, line in lines(tmp_path, files)] == [("SL101", 29)]


def test_a_caller_that_was_not_followed_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``_project`` leaves open may be the caller's business: it is reported, with that doubt."""
    monkeypatch.setattr(runs, "LIMITS", replace(LIMITS, path_steps=400, line_steps=1))
    work = "        x = x + 1\n" * 200
    files = written(tmp_path, {"run.py": PROJECTED.format(work=work, join=JOIN)})
    found = engine.analyze(tmp_path, files, engine.Settings()).findings
    assert [(one.code, one.confidence) for one in found] == [("SL101", Confidence.POSSIBLE)]


def test_a_step_that_nothing_calls_answers_for_itself(tmp_path: Path) -> None:
    text = PROJECTED.format(work="", join=JOIN).partition("    def forward")[0]
    files = written(tmp_path, {"run.py": text})
    assert [(code, line) for code, _, line in lines(tmp_path, files)] == [("SL101", 16)]
