"""A caller in sight shows what is pending when it calls, and how its calls follow each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.run import engine

if TYPE_CHECKING:
    from pathlib import Path

SUMS = """
import cupy as cp

class Sums:
    def __init__(self):
        self.side = cp.cuda.Stream(non_blocking=True)
        with self.side:
            self.total = cp.zeros(3)

    def add(self, x):
        with self.side:
            self.total[0] += x.size
            self.total[1] += x.sum(dtype=cp.float64)
            self.total[2] += cp.square(x).sum()

    def wait(self):
        self.side.synchronize()

def scan(reader, n):
    sums = Sums()
    for i in range(n):
        x = {given}
        sums.add(x)
        sums.wait()
    return sums
"""
PAGE = """
import torch

class Page:
    def __init__(self, n):
        self.page = torch.empty(n, pin_memory=True)
        self.there = torch.empty(n, device="cuda")

    def update(self, values):
        self.page[:] = torch.tensor(values)
        return self.there.copy_(self.page, non_blocking=True)

class Sampler:
    def __init__(self, n):
        self.inputs = Page(n)

    def sample(self, values):
        there = self.inputs.update(values)
        return {fetched}

def decode(schedule):
    sampler = Sampler(64)
    return [sampler.sample(values) for values in schedule]

def decode_all(schedule):
    sampler, out = Sampler(64), []
    for values in schedule:
        out.append(sampler.sample(values))
    return out
"""


def shown(root: Path, text: str, **given: str) -> set[str]:
    file = root / "run.py"
    file.write_text(text.format(**given))
    report = engine.analyze(root, [file], engine.Settings())
    return {one.code for one in report.findings if one.confidence is not Confidence.POSSIBLE}


@pytest.mark.parametrize(("given", "expected"), [("reader.next()", set()), ("cp.ones(64) * i", {"SL101"})])
def test_what_is_pending_the_caller_in_sight_shows(tmp_path: Path, given: str, expected: set[str]) -> None:
    assert shown(tmp_path, SUMS, given=given) == expected


@pytest.mark.parametrize(
    ("fetched", "expected"), [("torch.nonzero(there > 2)", set()), ("(there > 2).sum()", {"SL202"})]
)
def test_one_call_right_after_another_a_loop_in_sight_shows(
    tmp_path: Path, fetched: str, expected: set[str]
) -> None:
    assert shown(tmp_path, PAGE, fetched=fetched) == expected
