"""What is loaded for what: counted in modules and calls, which is the same on any machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamlint.rules import RULES
from streamlint.settings.catalog import LISTED, Listed

HERE = Path(__file__).parent.parent
PROGRAM = """\
import sys
from streamlint.__main__ import main
sys.argv = ["streamlint", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
sys.stdout = sys.__stderr__
print(*sys.modules)
"""
ANALYSIS = {
    *("networkx", "streamlint.interp", "streamlint.lower", "streamlint.judging"),
    *("streamlint.rules", "streamlint.trace", "streamlint.ir", "streamlint.models", "streamlint.order"),
}


def loaded(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


def test_the_version_needs_nothing() -> None:
    names = loaded("--version")
    assert names.isdisjoint({*ANALYSIS, "argparse", "dataclasses", "pathlib"})
    assert len([name for name in names if name.startswith("streamlint")]) == 2


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["cache", "dir"]])
def test_what_analyzes_nothing_does_without_the_analysis(arguments: list[str]) -> None:
    assert loaded(*arguments).isdisjoint(ANALYSIS)


def test_a_file_without_gpu_code_needs_no_analysis(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("import os\n\n\ndef f(x):\n    return os.fspath(x)\n")
    (tmp_path / "pyproject.toml").write_text("")
    names = loaded("-q", str(tmp_path), "--cache-dir", str(tmp_path / "cache"))
    unneeded = {"subprocess", "socket", "xml", "importlib.metadata", "secrets", "email"}
    unneeded |= {"difflib", "hashlib", "sqlite3"}
    if sys.version_info >= (3, 11):
        unneeded.add("typing_extensions")
    assert names.isdisjoint({*ANALYSIS, *unneeded})


def test_the_rules_are_listed_as_they_are() -> None:
    """A run knows codes and names before it loads any rule."""
    assert tuple(Listed(rule.code, rule.name, rule.default) for rule in RULES) == LISTED
    assert LISTED[0].summary == RULES[0].summary


COUNTED = """\
import sys
import streamlint.models
calls = 0
def count(frame, event, argument):
    global calls
    calls += event == "call"
sys.setprofile(count)
import streamlint.models.vocabulary
sys.setprofile(None)
print(calls)
"""


def test_words_are_told_in_few_walks_over_the_tables() -> None:
    """Each walk is 800 calls; one for each row, as there once was, was a third of a start."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTED],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 300_000
