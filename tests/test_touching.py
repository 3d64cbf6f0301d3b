"""Whether code is worth running follows from what its names hold, not from how they sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.run import engine
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

SHARED = """\
import torch

class Part:
    def __init__(self):
        self.{lane} = torch.cuda.Stream()
        self.out = torch.zeros(8, device="cuda")
"""
USES = """
    def run(self, x):
        with torch.cuda.stream(self.{lane}):
            self.out = x * 2
"""
LOCKS = """\
import threading
import torch

class Part:
    def __init__(self):
        self.stopped = threading.Event()
        self.upstream = []

    def run(self, x):
        if not self.stopped.is_set():
            self.upstream.append(x)
"""


def analyzed(tmp_path: Path, text: str) -> int:
    files = written(tmp_path, {"part.py": text})
    report = engine.analyze(tmp_path, files, engine.Settings())
    assert not report.errors
    return report.analyzed


@pytest.mark.parametrize("lane", ["stream", "lane", "upstream", "q"])
def test_a_name_that_holds_a_stream_tells(tmp_path: Path, lane: str) -> None:
    assert analyzed(tmp_path, (SHARED + USES).format(lane=lane)) == 1


def test_an_event_of_threads_is_none_of_a_device(tmp_path: Path) -> None:
    assert analyzed(tmp_path, LOCKS) == 0


@pytest.mark.parametrize(
    ("code", "works"),
    [
        ("from numba import cuda\ndef start(job): job.lane = cuda.stream()\n", 1),
        ("import torch\ndef start(job, response): job.chunks = response.stream\n", 0),
        ("def start(job, response): job.chunks = response.stream\n", 0),
        ("import torch\ndef read(begun, ended): return begun.elapsed_time(ended)\n", 1),
        ("import torch\ndef read(begun, now):\n    elapsed_time = now - begun\n    return elapsed_time\n", 0),
        ("import torch\ndef work(x, s):\n    with torch.cuda.stream(s):\n        return x * 2\n", 1),
        ("import torch\ndef work(x, s):\n    assert torch.cuda.is_available()\n    launch(x, stream=s)\n", 0),
        ("import torch\ndef load(x, non_blocking): return x.to('cuda', torch.half, non_blocking)\n", 1),
    ],
)
def test_a_common_name_tells_only_where_it_is_the_librarys(tmp_path: Path, code: str, works: int) -> None:
    assert analyzed(tmp_path, code) == works
