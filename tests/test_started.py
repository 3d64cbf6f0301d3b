"""Modules without a word about streams that start threads of others: what these do to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint import check_paths
from streamlint.finding import Confidence
from streamlint.prefilter import imports, may_start_threads
from streamlint.run import engine
from streamlint.run.results import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from streamlint.finding import Finding

WORK = """
import torch


def work(frames):
    side = torch.cuda.Stream()
    for n in range(4):
        with torch.cuda.stream(side):
            frame = {"page": torch.zeros(1 << 20, device="cuda") + n}
        frames.put(frame)
"""
WAITING_WORK = WORK.replace("        frames.put", "        side.synchronize()\n        frames.put")

SHOW = """
def show(stop, frames):
    while not stop.is_set():
        frame = frames.get()
        print(frame["page"].cpu())
"""

PROGRAM = """
import queue
import threading

from {package}show import show
from {package}work import work


def main():
    stop, frames = threading.Event(), queue.Queue()
    shown = threading.Thread(target=show, args=(stop, frames))
    shown.start()
    work(frames)
    stop.set()
    shown.join()
"""

CLASS = """
import threading

import torch


class Shown(threading.Thread):
    def __init__(self, frames):
        super().__init__()
        self.frames = frames
        self.lane = torch.cuda.Stream()

    def run(self):
        while True:
            frame = self.frames.get()
            with torch.cuda.stream(self.lane):
                print(frame["page"].sum().item())
"""

PROGRAM_OF_CLASS = """
import queue

from .shown import Shown
from .work import work


def main():
    frames = queue.Queue()
    Shown(frames).start()
    work(frames)
"""


def _checked(folder: Path, **texts: str) -> list[Finding]:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    found = check_paths([folder], min_confidence="possible").findings
    return [each for each in found if each.code == "SL101"]


@pytest.mark.parametrize("package", ["", "frames.", "."])
def test_the_reader_and_the_stream_stand_in_other_files(tmp_path: Path, package: str) -> None:
    folder = tmp_path / "frames"
    if package:
        folder.mkdir()
        (folder / "__init__.py").touch()
    (found,) = _checked(folder, show=SHOW, work=WORK, program=PROGRAM.format(package=package))
    assert found.confidence is Confidence.LIKELY
    assert found.primary.path.endswith("show.py")
    assert any(note.span.path.endswith("work.py") for note in found.related)


def test_who_waits_before_he_hands_on_is_in_time(tmp_path: Path) -> None:
    assert _checked(tmp_path, show=SHOW, work=WAITING_WORK, program=PROGRAM.format(package="")) == []


def test_threads_that_are_classes(tmp_path: Path) -> None:
    folder = tmp_path / "frames"
    folder.mkdir()
    (folder / "__init__.py").touch()
    found = _checked(folder, shown=CLASS, work=WORK, program=PROGRAM_OF_CLASS)
    assert {finding.primary.path.rpartition("/")[2] for finding in found} == {"shown.py"}


def test_without_a_thread_nothing_is_brought_together(tmp_path: Path) -> None:
    alone = PROGRAM.format(package="").replace("threading.Thread(target=show, args=(stop, frames))", "show")
    assert _checked(tmp_path, show=SHOW, work=WORK, program=alone) == []


def test_a_kept_result_rests_on_what_the_program_imports(tmp_path: Path) -> None:
    """The program was looked at when no file of the tree had GPU code."""
    kept = tmp_path / "kept"
    folder = tmp_path / "tree"
    folder.mkdir()
    for name, text in {"show": SHOW, "work": "def work(frames): ...\n", "program": PROGRAM}.items():
        (folder / f"{name}.py").write_text(text.replace("{package}", ""), encoding="utf-8")

    def found() -> list[str]:
        settings = Settings(evidence=False)
        report = engine.analyze(folder, tuple(sorted(folder.iterdir())), settings, cache=kept)
        return [each.code for each in report.findings if each.code == "SL101"]

    assert found() == []
    (folder / "work.py").write_text(WORK, encoding="utf-8")
    assert found() == ["SL101"]


def test_imports_by_text() -> None:
    text = b"""
import a.b as c, d  # why
from .e import (
    f,  # this
    g as h,
)
    from ..i.j import k
from . import l
"""
    assert dict(imports(text)) == {
        "a.b": (),
        "d": (),
        ".e": ("f", "g"),
        "..i.j": ("k",),
        ".": ("l",),
    }


def test_words_that_start_threads() -> None:
    assert may_start_threads(b"threading.Thread(target=work)")
    assert may_start_threads(b"worker.start()")
    assert not may_start_threads(b"threads = 4")
