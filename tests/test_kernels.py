"""Which functions run on the host, and which a compiler takes to the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.test_tree import lines, written

if TYPE_CHECKING:
    from pathlib import Path

CAPTURED = """\
import torch
import cutlass.cute as cute
import flydsl

{decorator}
def steps(total):
    task = 0
    while task < total:
        task += 1

def run(stream: torch.cuda.Stream):
    count = torch.zeros(1, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        steps(count)
"""


@pytest.mark.parametrize("decorator", ["@cute.kernel", "@cute.jit", '@flydsl.kernel(name="steps")'])
def test_a_body_for_a_device_compiler_is_not_run_on_the_host(tmp_path: Path, decorator: str) -> None:
    files = written(tmp_path, {"run.py": CAPTURED.format(decorator=decorator)})
    assert lines(tmp_path, files) == []


@pytest.mark.parametrize("decorator", ["", "@torch.no_grad()", "@cached"])
def test_other_decorators_leave_it_on_the_host(tmp_path: Path, decorator: str) -> None:
    files = written(tmp_path, {"run.py": CAPTURED.format(decorator=decorator)})
    assert {code for code, _, _ in lines(tmp_path, files)} == {"SL501"}
