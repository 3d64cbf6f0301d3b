"""What annotations of a class say of its fields holds for objects that unseen code passes."""

from __future__ import annotations

import pytest

from streamlint.api import check_source
from streamlint.finding import Confidence

PLANS = """\
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch


class Plan(NamedTuple):
    rows: np.ndarray


@dataclass
class Request:
    plan: Plan
    count: int


class Planner:
    def __init__(self, n: int):
        self.page = torch.zeros(n, dtype=torch.int32, pin_memory=True)
        self.view = self.page.numpy()
        self.table = torch.zeros(n, dtype=torch.int32, device="cuda")
        self.done = torch.cuda.Event()

    def build(self, request: Request):
        rows = request.plan.rows * 2
        {wait}
        self.view[: request.count] = rows
        self.table[: request.count].copy_(self.page[: request.count], non_blocking=True)
        self.done.record()
        return int(rows.max())
"""


@pytest.mark.parametrize(("wait", "found"), [("pass", ["SL202"]), ("self.done.synchronize()", [])])
def test_the_host_computes_with_arrays_of_numpy(wait: str, found: list[str]) -> None:
    """``int(rows.max())`` of an array of NumPy waits for no stream, so the page is filled again too early."""
    report = check_source(PLANS.format(wait=wait), "plan.py", min_confidence=Confidence.LIKELY)
    assert [one.code for one in report.findings] == found


WARP = """\
from dataclasses import dataclass

import warp as wp


@dataclass
class State:
    rows: wp.array
    count: wp.array(dtype=int)


@wp.kernel
def collect(rows: wp.array(dtype=float), count: wp.array(dtype=int)):
    i = wp.tid()
    if rows[i] > 0.0:
        wp.atomic_add(count, 0, 1)


def fill(state: State, n: int):
    state.count.zero_()
    wp.launch(collect, dim=n, inputs=[state.rows], outputs=[state.count])
    {use}


class Stepper:
    def __init__(self, state: State, n: int):
        self.state = state
        with wp.ScopedCapture() as capture:
            fill(state, n)
        self.graph = capture.graph

    def step(self):
        wp.capture_launch(self.graph)
        return self.state.count.numpy()
"""


@pytest.mark.parametrize(("use", "found"), [("pass", []), ("print(state.count.numpy())", ["SL505"])])
def test_arrays_of_a_module_that_has_only_warp_are_warps(use: str, found: list[str]) -> None:
    """They are used on Warp's stream; ``numpy()`` copies on the default stream, which a capture refuses."""
    report = check_source(WARP.format(use=use), "steps.py", min_confidence=Confidence.POSSIBLE)
    assert [one.code for one in report.findings] == found
