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
