"""Each benchmark still runs: over one small file, or as far as to its help where that would take long."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
OVER_A_TREE = {
    "bench_lower.py": "1 functions, 0 failed",
    "executions.py": "1 entries, 0 idle",
    "mutation.py": "1 found 100.0 %",
    "repeats.py": "calls",
    "resolution.py": "1 100.0 %      1 100.0 %",
}
"""Those that take a tree, and what they tell of ours."""
HELP = ("editing.py", "observe_cost.py", "scaling.py", "speed.py")
IMPORTED = ("ordering_statements.py", "stream_functions.py")
"""What others import, which run."""

JOINED = """\
import torch


def total(x: torch.Tensor):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    torch.cuda.current_stream().wait_stream(side)
    return y.sum()
"""


def run(*command: object) -> str:
    root = BENCHMARKS.parent
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env=environment,
    )
    assert not done.returncode, done.stderr
    assert not done.stderr
    return done.stdout


def test_all_are_tried() -> None:
    tried = {*OVER_A_TREE, *HELP, *IMPORTED, "bench_conflicts.py", "examined.py"}
    assert {path.name for path in BENCHMARKS.glob("*.py")} == tried


@pytest.mark.parametrize("name", OVER_A_TREE)
def test_over_a_tree(name: str, tmp_path: Path) -> None:
    (tmp_path / "joined.py").write_text(JOINED, encoding="utf-8")
    assert OVER_A_TREE[name] in run(BENCHMARKS / name, tmp_path)


@pytest.mark.parametrize("name", HELP)
def test_help(name: str) -> None:
    assert "usage" in run(BENCHMARKS / name, "--help")


def test_conflicts() -> None:
    assert "300 streams of all kinds" in run("-m", "benchmarks.bench_conflicts", 50)


def test_examined(tmp_path: Path) -> None:
    wrong = "".join(line for line in JOINED.splitlines(keepends=True) if "current_stream().wait" not in line)
    (tmp_path / "bug_1.py").write_text(wrong, encoding="utf-8")
    (tmp_path / "ok_1.py").write_text(JOINED, encoding="utf-8")
    rows = [{"file": "bug_1.py", "lines": [[9, 9]]}, {"file": "ok_1.py", "lines": []}]
    (tmp_path / "index.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    told = run(BENCHMARKS / "examined.py", tmp_path)
    assert "1 of 1 found (1 with its other places), 0 of 1 right ones with a finding" in told
