"""The command of a whole program, its environment, and what it wrote last."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from streamlint.confirm.inside import last_words
from streamlint.confirm.inside.hook import script_of
from streamlint.confirm.run import processes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python", "a.py"], ([], "a.py", [])),
        (["python", "-u", "-X", "dev", "a.py", "-c", "x"], (["-u", "-X", "dev"], "a.py", ["-c", "x"])),
        (["python", "-Wonce", "-Xdev", "-OO", "a.py"], (["-Wonce", "-Xdev", "-OO"], "a.py", [])),
        (["python", "-W", "once", "a.py"], (["-W", "once"], "a.py", [])),
        (["python", "-c", "pass"], None),
        (["python", "-m", "pytest"], None),
        (["python", "-Bm", "pytest"], None),
        (["python", "-"], None),
        (["python"], None),
    ],
)
def test_the_script_of_a_command(command: list[str], expected: object) -> None:
    assert script_of(command) == expected


def test_the_environment_keeps_what_the_user_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/the/user")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-q")
    environment = processes.tidy_environment(tmp_path)
    assert environment["PYTHONPATH"].split(os.pathsep) == [str(tmp_path), "/of/the/user"]
    assert environment["PYTEST_ADDOPTS"] == "-q --assert=plain"


def test_a_reason_holds_no_control_characters(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"first\n\xff\x1b[31mred\x07\n")
    assert last_words.tail(tmp_path / "log") == ": \ufffd?[31mred?"
    assert last_words.tail(tmp_path / "none") == ""
