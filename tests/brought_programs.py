"""Programs of several files: a stream works in one of them, and another one, that names no stream, uses it.

Of each its files, what mends it, as a text of these and one in its place, and the rule that tells it.
"""

from __future__ import annotations

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
LOG = """
class Log:
    def line(self, text):
        print(text)


def build():
    return Log()
"""
BUILDING = """
from .mirror import Mirror


def build():
    return Mirror(512)
"""
NAMESAKES = """
import torch

from . import {modules}
from .report import Report


def main(steps=20):
    notes = log.build()
    report = Report(building.build())
    for _ in range(steps):
        report.add(torch.randn(512, device="cuda"))
    notes.line("done")
    return report.rows
"""
STEPPING = """
from .outer import Mirror


class Stepping:
    def __init__(self, net):
        self.net = net
        self.mirror = Mirror(512)
        self.seen = []

    def step(self, x):
        self.mirror.push(self.net(x))
        self.seen.append(self.mirror.host.tolist())
"""
PROGRAMS = {
    "functions of one name in two modules": (
        {
            "log": LOG,
            "mirror": MIRROR,
            "report": REPORT,
            "building": BUILDING,
            "main": NAMESAKES.format(modules="building, log"),
        },
        ("        self.rows.append", "        self.mirror.settle()\n        self.rows.append"),
        "SL201",
    ),
    "the same, the other way round": (
        {
            "log": LOG,
            "mirror": MIRROR,
            "report": REPORT,
            "building": BUILDING,
            "main": NAMESAKES.format(modules="log, building"),
        },
        ("        self.rows.append", "        self.mirror.settle()\n        self.rows.append"),
        "SL201",
    ),
    "what two modules hand on, one to the other": (
        {
            "mirror": MIRROR,
            "inner": "from .mirror import Mirror\n",
            "outer": "from .inner import Mirror\n",
            "stepping": STEPPING,
        },
        ("        self.seen.append", "        self.mirror.settle()\n        self.seen.append"),
        "SL201",
    ),
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
