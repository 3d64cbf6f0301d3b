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
