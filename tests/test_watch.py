"""``check --watch``, as a process of its own."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from streamlint.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("watchfiles")

WRONG = """\
import torch


def fork():
    side = torch.cuda.Stream()
    x = torch.zeros(4, device="cuda")
    torch.cuda.synchronize()
    x.fill_(7.0)
    with torch.cuda.stream(side):
        total = x.sum()
    torch.cuda.synchronize()
    return total.item()
"""
RIGHT = WRONG.replace("    with", "    side.wait_stream(torch.cuda.current_stream())\n    with")
PATIENCE = 120


class Watching:
    """A run, and what it has written until now."""

    def __init__(self, folder: Path, *arguments: str, terminal: bool = False) -> None:
        self.master, out = pty.openpty() if terminal else os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "streamlint", "check", str(folder), "--watch", "--no-cache", *arguments],
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # What a shell starts in the background inherits that SIGINT is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        )
        os.close(out)
        self.text = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self.master, 4096)
            except OSError:  # the other end of a terminal has gone
                return
            if not part:
                return
            self.text += part.decode("utf-8", "replace")

    def wait_for(self, word: str, times: int = 1) -> None:
        end = time.monotonic() + PATIENCE
        while self.text.count(word) < times:
            assert time.monotonic() < end, f"no {word!r} in {self.text!r}"
            assert self.process.poll() is None, self.text
            time.sleep(0.05)

    def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@pytest.fixture
def started() -> Iterator[list[Watching]]:
    running: list[Watching] = []
    yield running
    for each in running:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


def test_it_looks_again_when_a_file_has_changed(tmp_path: Path, started: list[Watching]) -> None:
    (tmp_path / "streamlint.toml").write_text("", "utf-8")
    (tmp_path / "program.py").write_text(WRONG, "utf-8")
    run = Watching(tmp_path)
    started.append(run)
    run.wait_for("watching")
    assert "Found 1 finding" in run.text
    (tmp_path / "program.py").write_text(RIGHT, "utf-8")
    run.wait_for("watching", 2)
    assert "No findings" in run.text
    (tmp_path / "more.py").write_text(WRONG, "utf-8")
    run.wait_for("watching", 3)
    assert run.text.count("Found 1 finding") == 2
    (tmp_path / "streamlint.toml").write_text("nonsense = 1\n", "utf-8")
    run.wait_for("watching", 4)
    assert "nonsense" in run.text
    assert "\033" not in run.text
    assert run.stop(signal.SIGINT) == 130
    assert "Traceback" not in run.text


def test_a_terminal_is_cleared_and_sigterm_ends_it(tmp_path: Path, started: list[Watching]) -> None:
    (tmp_path / "program.py").write_text(RIGHT, "utf-8")
    run = Watching(tmp_path, terminal=True)
    started.append(run)
    run.wait_for("watching")
    assert run.text.startswith("\033[H\033[2J")
    assert run.stop(signal.SIGTERM) == 143


def test_what_it_writes_itself_wakes_it_not(tmp_path: Path, started: list[Watching]) -> None:
    (tmp_path / "program.py").write_text(RIGHT, "utf-8")
    run = Watching(tmp_path, "--output-format", "json", "--output", str(tmp_path / "out.py"))
    started.append(run)
    run.wait_for("watching")
    time.sleep(1)
    assert run.text.count("watching") == 1


@pytest.mark.parametrize("option", [["--add-ignore", "why"], ["--write-baseline", "b.json"], ["--fix"]])
def test_it_only_looks(tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path), "--watch", *option]) == 2
    assert f"leave {option[0]} out" in capsys.readouterr().err


def test_what_is_not_there_is_not_watched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "nope"), "--watch"]) == 2
    assert "nope: no such file or folder" in capsys.readouterr().err


def test_it_says_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    assert main(["check", str(tmp_path), "--watch"]) == 2
    assert "extra `watch`" in capsys.readouterr().err
