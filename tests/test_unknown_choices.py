"""What a path assumes about a flag, a device or a size is told from what the code shows."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.run import engine

if TYPE_CHECKING:
    from pathlib import Path

PINNED = """
import torch
import platforms

class Runner:
    def __init__(self, n, pinned: bool = True):
        {made}
        self.ids = torch.empty(n, dtype=torch.int64, device="cpu", pin_memory={flag})

    def to_list(self, ids: torch.Tensor):
        ids = ids.cuda()
        self.ids.copy_(ids, non_blocking=True)
        return self.ids.tolist()
"""
FIELD = """
import torch
import platforms

class Runner:
    def setup(self, n, pinned: bool = True):
        {made}
        self.ids = torch.empty(n, dtype=torch.int64, device="cpu", pin_memory={flag})

    def to_list(self, ids: torch.Tensor):
        ids = ids.cuda()
        self.ids.copy_(ids, non_blocking=True)
        return self.ids.tolist()
"""
BACK = """
import torch

stream, back = torch.cuda.Stream(), torch.cuda.Stream()

def state(device=None):
    return torch.cuda.current_device() if device is None else device

class Linear(torch.autograd.Function):
    @staticmethod
    def backward(ctx, grad):
        device = ctx.device
        state(device)
        weight = ctx.weight
        with torch.cuda.stream(stream):
            old = weight.grad.to(device, non_blocking=True)
        torch.cuda.current_stream().wait_stream(stream)
        new = grad @ old
        back.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(back):
            weight.grad = new.to("cpu", non_blocking=True)
        return new
"""
COUNTED = """
import torch
import kernels

def setup(data, heads):
    run = kernels.build(heads)
    page = torch.empty(heads, 16, device=data.device)
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        if {test}:
            run(page, heads)
        page.zero_()
    return graph
"""

RANKED = """
import torch

def spread(x, sizes, n):
    active = [g for g in range(n) if sizes[g] > 0]
    lanes, held = {{}}, {{}}
    for g in active:
        lanes[g] = torch.cuda.Stream()
    first = active[0]
    with torch.cuda.stream(lanes[first]):
        whole = x.to("cuda", non_blocking=True)
    for g in active:
        with torch.cuda.stream(lanes[g]):
            held[g] = whole if {test} else torch.zeros(4, device="cuda")
    for g in active:
        with torch.cuda.stream(lanes[g]):
            held[g] += 1
    torch.cuda.synchronize()
    return held
"""

HANDLES = """
import torch
import torch.distributed as dist

class Reducer:
    def __init__(self, blocks, n):
        self.flat = torch.zeros(n, device="cuda")
        self.works = [None] * blocks

    def reduce(self, block):
        self.works[block] = dist.all_reduce(self.flat, async_op=True)
        if block == {block}:
            self.works[0].wait()
            self.norm = self.flat.norm()
"""


def found(root: Path, text: str, **given: str) -> list[tuple[str, Confidence]]:
    file = root / "run.py"
    file.write_text(textwrap.dedent(text).format(**given))
    report = engine.analyze(root, [file], engine.Settings())
    return sorted(((one.code, one.confidence) for one in report.findings), key=str)


@pytest.mark.parametrize("text", [PINNED, FIELD], ids=["of a constructor", "of another method"])
@pytest.mark.parametrize(
    ("made", "flag", "sure"),
    [
        ("pass", "True", True),
        ("pass", "pinned", True),
        ("self.pinned = pinned", "self.pinned", True),
        ("pass", "torch.cuda.is_available()", True),
        ("self.pinned = platforms.can_pin()", "self.pinned", False),
        ("pinned = platforms.current().pins", "pinned", False),
    ],
)
def test_what_another_module_says_of_pinning_is_not_known(
    tmp_path: Path, text: str, made: str, flag: str, *, sure: bool
) -> None:
    (one,) = found(tmp_path, text, made=made, flag=flag)
    assert one[0] == "SL201"
    assert (one[1] is not Confidence.POSSIBLE) is sure


def test_a_copy_that_need_not_wait_goes_to_a_device_whatever_a_test_took_it_for(tmp_path: Path) -> None:
    assert found(tmp_path, BACK) == [("SL101", Confidence.LIKELY)]


@pytest.mark.parametrize(("test", "sure"), [("heads == 64", False), ("page.sum() > 3", True)])
def test_a_number_is_no_work_of_a_capture(tmp_path: Path, test: str, *, sure: bool) -> None:
    assert [one[1] is not Confidence.POSSIBLE for one in found(tmp_path, COUNTED, test=test)] == [sure]


@pytest.mark.parametrize(("test", "expected"), [("g == first", False), ("sizes[g] == 1", True)])
def test_no_number_is_in_a_range_twice(tmp_path: Path, test: str, *, expected: bool) -> None:
    sure = {code for code, level in found(tmp_path, RANKED, test=test) if level is not Confidence.POSSIBLE}
    assert ("SL101" in sure) is expected


@pytest.mark.parametrize(("block", "expected"), [("0", False), ("1", True)])
def test_an_element_is_found_under_the_number_that_its_place_turned_out_to_be(
    tmp_path: Path, block: str, *, expected: bool
) -> None:
    assert (("SL602", Confidence.LIKELY) in found(tmp_path, HANDLES, block=block)) is expected
