"""Layers of torch.nn: of which it is known what they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.run import engine

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, given):
        super().__init__()
        self.side = torch.cuda.Stream()
        self.first = nn.Linear(8, 8)
        self.second = {layer}

    def forward(self, x):
        h = self.first(x)
        with torch.cuda.stream(self.side):
            y = self.second(h)
        torch.cuda.current_stream().wait_stream(self.side)
        y.record_stream(torch.cuda.current_stream())
        return y.sum()
"""


def confidence(tmp_path: Path, layer: str) -> str:
    """Of the finding that the second layer reads too early."""
    file = tmp_path / "model.py"
    file.write_text(PROGRAM.format(layer=layer), "utf-8")
    report = engine.analyze(tmp_path, [file], engine.Settings())
    assert not report.errors
    return next(f.confidence.value for f in report.findings if f.code == "SL101" and f.primary.line == 15)


@pytest.mark.parametrize(
    "layer",
    [
        "nn.Linear(8, 8)",
        "torch.nn.LayerNorm(8)",
        "nn.Linear(8, 8).cuda().eval()",
        "nn.Conv2d(8, 8, 3).to('cuda')",
        "nn.ReLU()",
        "nn.ReLU(inplace=False)",
        "nn.Sequential(nn.Linear(8, 8), nn.ReLU())",
    ],
)
def test_a_layer_reads_its_operand_on_the_current_stream(tmp_path: Path, layer: str) -> None:
    assert confidence(tmp_path, layer) == "certain"


@pytest.mark.parametrize(
    "layer",
    [
        "nn.Dropout(0.1)",
        "nn.ReLU(inplace=True)",
        "nn.ReLU(True)",
        "nn.ReLU(given)",
        "nn.Sequential(nn.Linear(8, 8), given)",
        "nn.Sequential(*given)",
        "nn.Linear(8, 8).weight",
        "torch.compile(nn.Linear(8, 8))",
    ],
)
def test_other_objects_may_do_anything(tmp_path: Path, layer: str) -> None:
    assert confidence(tmp_path, layer) != "certain"
