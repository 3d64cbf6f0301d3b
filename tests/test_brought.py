"""Modules without a word about streams that use what code of others may leave under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint import check_paths
from streamlint.finding import Confidence
from streamlint.prefilter import imports
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


MOVER = """
import torch


class Mover:
    def __init__(self, device):
        self.device = device
        self.side = torch.cuda.Stream(device)

    def bring(self, row):
        with torch.cuda.stream(self.side):
            return row.to(self.device, non_blocking=True)

    def settle(self):
        torch.cuda.current_stream().wait_stream(self.side)
"""
MOVERS = "from .mover import Mover"
STEPS = """
from .core import Mover


class Steps:
    def __init__(self, model, rows, device):
        self.model = model
        self.rows = [row.pin_memory() for row in rows]
        self.mover = Mover(device)

    def step(self, n):
        weights = self.mover.bring(self.rows[n])
        return self.model(weights)
"""
OFFLOAD = """
import torch

LANES = {}


def lane(name):
    if name not in LANES:
        LANES[name] = torch.cuda.Stream()
    return LANES[name]


class Offloads:
    def offload(self, x):
        side = lane("down")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            return x.to("cpu", non_blocking=True)

    def settled(self):
        lane("down").synchronize()
"""
TRAINER = """
from .offload import Offloads


class Trainer(Offloads):
    def __init__(self, model):
        self.model = model.cuda()
        self.seen = []

    def step(self, x):
        host = self.offload(self.model(x).sum())
        self.seen.append(float(host))
"""
LOADER = """
import torch


class Loader:
    def __init__(self, source, device):
        self.source = iter(source)
        self.device = device
        self.side = torch.cuda.Stream()
        self.load()

    def load(self):
        batch = next(self.source, None)
        self.next = None
        if batch is not None:
            with torch.cuda.stream(self.side):
                self.next = self.move(batch)

    def __iter__(self):
        while self.next is not None:
            batch = self.next
            self.load()
            yield self.shown(batch)
"""
IMAGES = """
from .loader import Loader


class Images(Loader):
    def move(self, batch):
        return batch.pin_memory().to(self.device, non_blocking=True)

    def shown(self, batch):
        return batch.sub(0.5).div(0.5)
"""
SETTINGS = """
import torch

COPY = torch.cuda.Stream()
"""
FETCH = """
from .settings import *


def fetch(row):
    with torch.cuda.stream(COPY):
        return row.to("cuda", non_blocking=True)


def fetched():
    torch.cuda.current_stream().wait_stream(COPY)
"""
SERVE = """
def serve(rows, model):
    from .fetch import fetch, fetched

    for row in rows:
        x = fetch(row.pin_memory())
        yield model(x)
"""
MIRROR = """
import torch


class Mirror:
    def __init__(self, n):
        self.host = torch.empty(n, pin_memory=True)
        self.lane = torch.cuda.Stream()

    def push(self, row):
        self.lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.lane):
            self.host.copy_(row, non_blocking=True)
        row.record_stream(self.lane)

    def settle(self):
        self.lane.synchronize()
"""
REPORT = """
class Report:
    def __init__(self, mirror):
        self.mirror = mirror
        self.rows = []

    def add(self, row):
        self.mirror.push(row)
        self.rows.append(self.mirror.host.tolist())
"""
REPORTING = """
import torch

from .mirror import Mirror
from .report import Report


def main(steps=20):
    report = Report(Mirror(512))
    for _ in range(steps):
        report.add(torch.randn(512, device="cuda"))
    return report.rows
"""
ENGINES = """
import torch


class Direct:
    def infer(self, x):
        return x * 2


class Aside:
    def __init__(self):
        self.lane = torch.cuda.Stream()
        self.out = torch.empty(1 << 20, device="cuda")

    def infer(self, x):
        self.lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.lane):
            self.out.copy_(x)
        x.record_stream(self.lane)
        return self.out

    def settle(self):
        torch.cuda.current_stream().wait_stream(self.lane)
"""
FACTORY = """
from .engines import Aside, Direct

KINDS = {"aside": Aside, "direct": Direct}


def build(kind="aside"):
    return KINDS[kind]()
"""
SERVER = """
import torch

from .factory import build


def main():
    engine = build()
    for _ in range(10):
        out = engine.infer(torch.randn(1 << 20, device="cuda"))
        print(out.sum().item())
"""
LANES = """
import torch


class Lane:
    def __init__(self, n):
        self.page = torch.empty(n, device="cuda")
        self.side = torch.cuda.Stream()

    def load(self, rows):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.page.copy_(rows, non_blocking=True)

    def settle(self):
        torch.cuda.current_stream().wait_stream(self.side)


def lanes(count, n):
    made = []
    for _ in range(count):
        made.append(Lane(n))
    return made
"""
FEEDER = """
class Feeder:
    def __init__(self, lanes, rows):
        self.lanes = lanes
        self.rows = rows

    def pages(self):
        for n, row in enumerate(self.rows):
            lane = self.lanes[n % len(self.lanes)]
            lane.load(row)
            yield lane.page
"""
FEEDING = """
import torch

from .feeder import Feeder
from .lanes import lanes


def main():
    rows = [torch.randn(1 << 20).pin_memory() for _ in range(8)]
    return [page.sum() for page in Feeder(lanes(2, 1 << 20), rows).pages()]
"""
ANSWER = """
import torch


class Answer:
    def __init__(self, ids, stream):
        self.kept = ids
        self.ready = torch.cuda.Event()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._ids = ids.to("cpu", non_blocking=True)
            self.ready.record()

    @property
    def ids(self):
        return self._ids

    def settle(self):
        self.ready.synchronize()
"""
WORKER = """
import torch

from .answer import Answer


class Worker:
    def __init__(self, net):
        self.net = net
        self.lane = torch.cuda.Stream()

    def step(self, x):
        return Answer(self.net(x).argmax(1), self.lane)
"""
ASKING = """
import torch

from .worker import Worker


def main():
    worker = Worker(torch.nn.Linear(64, 512).cuda())
    for _ in range(10):
        answer = worker.step(torch.randn(8, 64, device="cuda"))
        print(answer.ids.tolist())
"""
PROGRAMS = {
    "an object that is handed on": (
        {"mirror": MIRROR, "report": REPORT, "reporting": REPORTING},
        ("        self.rows.append", "        self.mirror.settle()\n        self.rows.append"),
        "SL201",
    ),
    "one of a table of classes": (
        {"engines": ENGINES, "factory": FACTORY, "server": SERVER},
        ("        print(", "        engine.settle()\n        print("),
        "SL101",
    ),
    "objects in a list that a function gives": (
        {"lanes": LANES, "feeder": FEEDER, "feeding": FEEDING},
        ("            yield lane", "            lane.settle()\n            yield lane"),
        "SL101",
    ),
    "what a constructor begins": (
        {"answer": ANSWER, "worker": WORKER, "asking": ASKING},
        ("        print(", "        answer.settle()\n        print("),
        "SL201",
    ),
    "what a package hands on": (
        {"core/__init__": MOVERS, "core/mover": MOVER, "steps": STEPS},
        ("        return self.model", "        self.mover.settle()\n        return self.model"),
        "SL101",
    ),
    "what a base class has": (
        {"offload": OFFLOAD, "trainer": TRAINER},
        ("        self.seen.append", "        self.settled()\n        self.seen.append"),
        "SL201",
    ),
    "what a base class calls": (
        {"loader": LOADER, "images": IMAGES},
        ("yield self", "torch.cuda.current_stream().wait_stream(self.side)\n            yield self"),
        "SL101",
    ),
    "what a function imports": (
        {"settings": SETTINGS, "fetch": FETCH, "serve": SERVE},
        ("        yield model", "        fetched()\n        yield model"),
        "SL101",
    ),
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
