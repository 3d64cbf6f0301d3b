"""The same files give the same bytes: for any number of processes, hash seed and order of the paths."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlint.cache.store import NAME
from streamlint.output import Format
from streamlint.run import parallel

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent.parent
FIXTURES = sorted((HERE / "fixtures").rglob("*.py"))

PROGRAM = """\
import sys
from streamlint import cli
from streamlint.output import Format, render

# One analysis, all forms.
def all_forms(form, outcome, style):
    return "".join(f"== {each.value}\\n{render(each, outcome, style)}" for each in Format)

cli.render = all_forms
cli.main(sys.argv[1:])
"""
TIMES = (r'"seconds": [\d.]+', r"in [\d.]+ s\b", r'time="[\d.]+"')


def shown(paths: list[Path], jobs: int, seed: int, options: Sequence[str] = ()) -> str:
    """All that a run prints, in all forms, without the time that it took."""
    options = [
        *options,
        "--jobs",
        str(jobs),
        "--min-confidence",
        "possible",
        "--select",
        "ALL",
        "--statistics",
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "check", *options, *map(str, paths)],
        env={**os.environ, "PYTHONPATH": str(HERE), "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return re.sub("|".join(TIMES), "", done.stdout)


@pytest.mark.slow
def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    """With what an earlier run has found, too. In a tree of their own, where nothing else is asked about."""
    tree = tmp_path / "tree"
    for path in FIXTURES[::4]:
        copy = tree / path.relative_to(HERE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    (tree / "pyproject.toml").touch()
    some = sorted(tree.rglob("*.py"))
    assert sum(path.stat().st_size for path in some) > parallel.WORTH_A_POOL, "enough for several processes"
    once = shown(some, jobs=1, seed=1)
    assert all(f"== {each.value}\n" in once for each in Format)
    assert "[possible]" in once
    options = ["--cache-dir", str(tmp_path / "cache")]
    assert shown(some[::-1], jobs=2, seed=2, options=options) == once
    assert shown(some, jobs=1, seed=3, options=options) == once, "all is known"
    with sqlite3.connect(tmp_path / "cache" / NAME) as database:
        reports = database.execute("DELETE FROM results WHERE reads = x''").rowcount
    database.close()
    assert reports == 1
    assert shown(some, jobs=2, seed=4, options=options) == once, "each file is known"
