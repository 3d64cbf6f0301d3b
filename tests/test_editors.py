"""The recipes of docs/editors.md, in the editors themselves, where they are installed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
STEPS = HERE / "editors"
RACE = """\
import torch

def train(x):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    z = y + 1
    return z
"""
LINE, COLUMN = 8, 9
SUPPRESSED = "    # streamlint: ignore[SL101] "


def recipe(first_line: str) -> str:
    """Return the block of the page that starts so."""
    page = (HERE.parent / "docs" / "editors.md").read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"^```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(first_line)]
    return found


class Desk:
    """A project with a race below its root, ``streamlint`` on the path, and an empty home."""

    def __init__(self, folder: Path, streamlint: list[str]) -> None:
        self.folder = folder
        self.file = folder / "project" / "below" / "race.py"
        self.file.parent.mkdir(parents=True)
        self.file.write_text(RACE)
        (folder / "project" / "pyproject.toml").touch()
        program = folder / "bin" / "streamlint"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.join(streamlint)} "$@"\n')
        program.chmod(0o755)

    def run(self, first_line: str, *command: str, cwd: Path | None = None) -> dict[str, Any]:
        """Run an editor with a recipe of the page for its configuration, and return what the steps saw."""
        report = self.folder / "report.json"
        (self.folder / "recipe").write_text(recipe(first_line))
        environment = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(HERE.parent),
            "HOME": str(self.folder),
            "TERM": "xterm",
            "STEPS_FILE": str(self.file),
            "STEPS_FOLDER": str(self.file.parent),
            "STEPS_REPORT": str(report),
        }
        done = subprocess.run(
            command,
            cwd=cwd or self.folder / "project",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert report.exists(), done.stdout + done.stderr
        seen: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return seen

    @property
    def recipe(self) -> str:
        return str(self.folder / "recipe")


@pytest.fixture
def desk(tmp_path: Path, warm_command: list[str]) -> Desk:
    return Desk(tmp_path, warm_command)


def installed(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    return path


def told(*command: str) -> str:
    return subprocess.run(
        command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    ).stdout


@pytest.mark.slow
def test_neovim_types_with_the_language_server(desk: Desk) -> None:
    neovim = installed("nvim")
    version = re.search(r"v(\d+)\.(\d+)", told(neovim, "--version"))
    assert version is not None
    new = (int(version[1]), int(version[2])) >= (0, 11)
    first = "-- Neovim 0.11 or newer" if new else "-- Neovim 0.7 to 0.10"
    # Neovim reads a configuration as Lua by its name only.
    command = (neovim, "--headless", "--clean", "-u", "NONE", "-c", "filetype plugin on")
    seen = desk.run(first, *command, "-c", f"luafile {desk.recipe}", "-c", f"luafile {STEPS / 'steps.lua'}")
    assert seen["found"] == [{"code": "SL101", "line": LINE, "column": COLUMN, "source": "streamlint"}]
    assert (seen["vanished"], seen["back"]) == (True, True)
    assert seen["action"] == "Suppress SL101 for this statement"
    assert seen["text"][LINE - 1].startswith(SUPPRESSED)
    assert seen["silent"]


@pytest.mark.parametrize("below", ["", "below"])
def test_vim_makes_and_jumps(desk: Desk, below: str) -> None:
    folder = desk.folder / "project" / below
    vim = installed("vim")
    command = (vim, "-es", "-N", "-u", desk.recipe, "-S", str(STEPS / "steps.vim"))
    desk.file = desk.file.rename(desk.file.with_name("the race.py"))
    seen = desk.run('" Vim, in vimrc', *command, cwd=folder)
    assert (seen["file"], seen["line"], seen["column"]) == (str(desk.file), LINE, COLUMN)
    (found,) = seen["found"]
    assert found["text"].startswith("SL101 [likely] `y` is read")


@pytest.mark.slow
def test_vim_types_with_the_language_server(desk: Desk) -> None:
    vim = installed("vim")
    missing = "if empty(globpath(&packpath, 'pack/*/opt/ale')) | cquit | endif"
    if subprocess.run([vim, "-es", "-N", "-u", "NONE", "-c", missing, "-c", "qall"], check=False).returncode:
        pytest.skip("ALE is not installed")
    seen = desk.run('" Vim with ALE', vim, "-es", "-N", "-u", desk.recipe, "-S", str(STEPS / "ale.vim"))
    assert seen["found"] == [{"code": "SL101", "line": LINE, "column": COLUMN}]
    assert (seen["appeared"], seen["vanished"], seen["back"]) == (True, True, True)


def test_emacs_compiles_and_jumps(desk: Desk) -> None:
    command = (installed("emacs"), "--batch", "-Q", "-l", desk.recipe)
    seen = desk.run(";; Emacs, in init.el", *command, "-l", str(STEPS / "steps.el"), "-f", "steps-compile")
    assert (seen["file"], seen["line"], seen["column"]) == (str(desk.file), LINE, COLUMN)
    assert "\x1b" not in seen["output"]


@pytest.mark.slow
def test_emacs_types_with_the_language_server(desk: Desk) -> None:
    emacs = installed("emacs")
    if "nil" in told(emacs, "--batch", "--eval", '(princ (locate-library "eglot"))'):
        pytest.skip("eglot is not installed")
    command = (emacs, "--batch", "-l", desk.recipe, "--eval", "(require 'eglot)")
    seen = desk.run(";; Emacs with eglot", *command, "-l", str(STEPS / "steps.el"), "-f", "steps-eglot")
    assert (seen["appeared"], seen["vanished"], seen["back"]) == ([LINE], True, [LINE])
    assert seen["text"].startswith("streamlint [SL101]: `y` is read")
    assert seen["buffer"].splitlines()[LINE - 1].startswith(SUPPRESSED)
    assert seen["silent"]
