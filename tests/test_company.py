"""Where tensors live is known from those that operators put beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.run import engine
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

FOLDED = """\
import torch


def fold(rows):
    bias = torch.ones(64, device="{device}")
    lane = torch.cuda.Stream()
    packed = torch.stack([row.reshape(64) for row in rows])
    lane.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(lane):
        packed.add_(bias)
        for i, row in enumerate(rows):
            row.copy_(packed[i])
    {kept}
    del packed
    extra = torch.zeros(64, device="cuda")
    torch.cuda.current_stream().wait_stream(lane)
    return extra
"""
PACKED = """\
import torch


def pack(grads, flat):
    comm = torch.cuda.Stream()
    noise = torch.ones(16, device="{device}")
    for grad in grads:
        grad.mul_(noise)
        low = grad * 0.5
        comm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(comm):
            flat.copy_(low)
        {kept}
        del low
    torch.cuda.current_stream().wait_stream(comm)
"""


def sure(root: Path, text: str) -> list[str]:
    found = engine.analyze(root, written(root, {"run.py": text}), engine.Settings()).findings
    return [finding.code for finding in found if finding.confidence is not Confidence.POSSIBLE]


CASES = [(FOLDED, "packed.record_stream(lane)"), (PACKED, "low.record_stream(comm)")]


@pytest.mark.parametrize(("program", "kept"), CASES)
def test_a_copy_beside_work_on_a_device_does_not_block(tmp_path: Path, program: str, kept: str) -> None:
    assert sure(tmp_path, program.format(device="cuda", kept="pass")) == ["SL401"]


@pytest.mark.parametrize(("program", "kept"), CASES)
def test_what_is_kept_is_right(tmp_path: Path, program: str, kept: str) -> None:
    assert sure(tmp_path, program.format(device="cuda", kept=kept)) == []


@pytest.mark.parametrize(("program", "kept"), CASES)
def test_beside_tensors_of_the_host_it_does(tmp_path: Path, program: str, kept: str) -> None:
    assert sure(tmp_path, program.format(device="cpu", kept="pass")) == []


LIKE = """\
import torch


class Blur:
    def __init__(self):
        self.lane = torch.cuda.Stream()

    def __call__(self, image):
        out = torch.empty_like(image)
        self.lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.lane):
            out.copy_({source})
        {joined}
        return out.sum()
"""
MULTIPLIED = """\
import torch


def mixed(weights, xs, totals):
    lane = torch.cuda.Stream()
    lane.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(lane):
        totals.copy_(torch.mm(xs, weights))
    {joined}
    return totals * 2
"""


@pytest.mark.parametrize("source", ["image", "(image * 2).half()", "image[0] + 1"])
def test_a_copy_within_one_place_waits_for_nobody(tmp_path: Path, source: str) -> None:
    joined = "torch.cuda.current_stream().wait_stream(self.lane)"
    assert "SL101" in sure(tmp_path, LIKE.format(source=source, joined=""))
    assert not sure(tmp_path, LIKE.format(source=source, joined=joined))


def test_what_is_multiplied_aside_is_on_the_device(tmp_path: Path) -> None:
    assert set(sure(tmp_path, MULTIPLIED.format(joined=""))) == {"SL101"}
    assert not sure(tmp_path, MULTIPLIED.format(joined="torch.cuda.current_stream().wait_stream(lane)"))


@pytest.mark.parametrize("source", ["rows[0]", "torch.stack(rows)"])
def test_what_is_only_gathered_aside_may_come_from_the_host(tmp_path: Path, source: str) -> None:
    text = MULTIPLIED.replace("weights, xs", "pool, rows").format(joined="")
    assert not sure(tmp_path, text.replace("torch.mm(xs, weights)", source))
