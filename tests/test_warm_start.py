"""A fork stands for the command: tests that use one see what they would see of the command itself."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.test_tree import RACE

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the command itself is started")
HERE = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("arguments", "given", "status"),
    [
        (["check", "-", "--stdin-filename", "new.py"], RACE, 1),
        (["check", "there is none"], "", 2),
        (["check", "--help"], "", 0),
    ],
)
def test_it_ends_as_the_command_does(
    tmp_path: Path, warm_command: list[str], arguments: list[str], given: str, status: int
) -> None:
    (tmp_path / "pyproject.toml").touch()
    environment = {**os.environ, "PYTHONPATH": str(HERE), "COLUMNS": "70", "FORCE_COLOR": "1"}
    fork, start = (
        subprocess.run(
            [*command, *arguments],
            cwd=tmp_path,
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        for command in (warm_command, [sys.executable, "-m", "streamlint"])
    )
    assert (fork.returncode, start.returncode) == (status, status)
    assert (without_seconds(fork.stdout), fork.stderr) == (without_seconds(start.stdout), start.stderr)
    assert fork.stdout + fork.stderr


def without_seconds(text: str) -> str:
    return re.sub(r"in [\d.]+ s\b", "", text)


def test_it_ends_with_who_asked(warm_command: list[str]) -> None:
    out, end = os.pipe()
    command = [*warm_command, "check", "-"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=end, stderr=end)
    os.close(end)
    time.sleep(0.1)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert os.read(out, 1) == b"", "nobody has the other end any more"
    os.close(out)
    assert process.stdin is not None
    process.stdin.close()
