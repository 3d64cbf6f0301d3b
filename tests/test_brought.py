"""Modules without a word about streams that use what code of others may leave under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint import check_paths
from streamlint.finding import Confidence
from streamlint.prefilter import imports
from streamlint.run import engine
from streamlint.run.results import Settings
from tests.brought_programs import MOVER, PROGRAMS

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


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("as_package", [True, False])
def test_modules_without_streams_that_use_what_is_left_under_way(
    tmp_path: Path, program: str, as_package: bool
) -> None:
    """Without an ``__init__.py`` relative imports lead from folder to folder."""
    texts, (late, in_time), code = PROGRAMS[program]
    folder = tmp_path / "frames"
    found = []
    for text in texts.values():
        assert text.count(late) <= 1
    for mended in (False, True):
        for name, text in texts.items():
            file = folder / f"{name}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace(late, in_time) if mended else text, encoding="utf-8")
            if as_package:
                (folder / "__init__.py").touch()
        found.append({each.code for each in check_paths([tmp_path]).findings})
    assert code in found[0]
    assert code not in found[1]


def test_a_module_that_only_makes_such_an_object_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "mover.py").write_text(MOVER, encoding="utf-8")
    made = "from mover import Mover\n\ndef made(device):\n    return Mover(device).device\n"
    (tmp_path / "made.py").write_text(made, encoding="utf-8")
    files = tuple(sorted(tmp_path.iterdir()))
    assert engine.analyze(tmp_path, files, Settings()).analyzed == 1
