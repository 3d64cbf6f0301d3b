"""Unseen functions whose result nobody uses write something: memory in which nothing is yet."""

from __future__ import annotations

import pytest

from streamlint.api import check_source
from streamlint.finding import Confidence

ALLOCATED_EACH_TIME = """\
import torch
from vendor.kernels import fused_norm


def norms(rows, weight: torch.Tensor):
    side = torch.cuda.Stream()
    found = []
    for row in rows:
        out = torch.empty(1024, device="cuda")
        {call}
        {wait}
        with torch.cuda.stream(side):
            host = out.to("cpu", non_blocking=True)
        out.record_stream(side)
        found.append(host)
    side.synchronize()
    return found
"""

KEPT = """\
import torch
import vendor.ops


class Layer:
    def __init__(self, n: int):
        self.side = torch.cuda.Stream()
        self.out = torch.empty(n, device="cuda")

    def forward(self, row: torch.Tensor, weight: torch.Tensor):
        out = self.out
        {call}
        side = self.side
        {wait}
        with torch.cuda.stream(self.side):
            self.out.mul_(0.5)
        torch.cuda.current_stream().wait_stream(self.side)
        return self.out.sum()
"""


@pytest.mark.parametrize("text", [ALLOCATED_EACH_TIME, KEPT])
@pytest.mark.parametrize(
    ("call", "wait", "found"),
    [
        ("{function}(out, row, weight)", "pass", True),
        ("{function}(row, weight, out=out)", "pass", True),
        ("{function}(out, row, weight)", "side.wait_stream(torch.cuda.current_stream())", False),
        ("out = {function}(out)", "side.wait_stream(torch.cuda.current_stream())", False),
    ],
)
def test_what_nothing_is_in_is_written(text: str, call: str, wait: str, found: bool) -> None:
    function = "fused_norm" if text is ALLOCATED_EACH_TIME else "vendor.ops.norm"
    source = text.format(call=call.format(function=function), wait=wait)
    report = check_source(source, "norms.py", min_confidence=Confidence.LIKELY)
    assert ("SL101" in {one.code for one in report.findings}) is found


READ = """\
import torch
from vendor.kernels import {name}


class Mixer:
    def __init__(self, n: int):
        self.side = torch.cuda.Stream()
        self.table = torch.{made}(n, device="cuda")

    def run(self, x: torch.Tensor):
        {call}
        with torch.cuda.stream(self.side):
            y = self.table * 2
        torch.cuda.current_stream().wait_stream(self.side)
        y.record_stream(torch.cuda.current_stream())
        return y
"""


@pytest.mark.parametrize(
    ("made", "call"),
    [
        ("zeros", "show(self.table, x)"),
        ("empty", "y = show(self.table, x)"),
        ("empty", "Show(self.table, x)"),
    ],
)
def test_what_something_is_in_may_be_read(made: str, call: str) -> None:
    """Nor is it known what a call does that gives something: ``descriptor = describe(out)``."""
    source = READ.format(name=call.removeprefix("y = ").partition("(")[0], made=made, call=call)
    report = check_source(source, "mixer.py", min_confidence=Confidence.LIKELY)
    assert not report.findings
