"""What is moved to the device may be an object that holds tensors: they are parts of what was moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.run import engine
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

FEEDER = """\
import dataclasses

import torch


class Feeder:
    def __init__(self, loader):
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
        self.ahead()

    def ahead(self):
        self.batch = next(self.loader, None)
        if self.batch is None:
            return
        with torch.cuda.stream(self.stream):
            self.batch = self.batch.to("cuda", non_blocking=True)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.batch
        if batch is not None:
            current = torch.cuda.current_stream()
            {kept}
            self.ahead()
        return batch


def train(model, loss_fn, loader, optimizer):
    feeder = Feeder(loader)
    batch = feeder.next()
    while batch is not None:
        loss = loss_fn(model(batch.images, batch.lens), batch.labels)
        loss.backward()
        optimizer.step()
        batch = feeder.next()
"""
LOOP = """\
import torch


@torch.no_grad()
def embed(table, graphs):
    side = torch.cuda.Stream()
    total = torch.zeros(64, device="cuda")
    for graph in graphs:
        with torch.cuda.stream(side):
            moved = graph.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        total += table.index_select(0, moved.nodes).sum(0) * moved.weight
        {kept}
        del moved
    return total
"""


def sure(root: Path, text: str) -> set[str]:
    found = engine.analyze(root, written(root, {"run.py": text}), engine.Settings()).findings
    return {finding.code for finding in found if finding.confidence is not Confidence.POSSIBLE}


def test_parts_are_used_with_the_whole(tmp_path: Path) -> None:
    assert sure(tmp_path, FEEDER.format(kept="pass")) == {"SL401"}
    assert sure(tmp_path, LOOP.format(kept="pass")) == {"SL401"}


@pytest.mark.parametrize(
    "kept",
    [
        "batch.record_stream(current)",
        "batch.apply(lambda x: x.record_stream(current))",
        "[batch[key].record_stream(current) for key in batch.keys()]",
        "[value.record_stream(current) for _, value in batch.items()]",
        "[value.record_stream(current) for value in vars(batch).values()]",
        "[value.record_stream(current) for _, value in batch.__dict__.items()]",
        "[getattr(batch, one.name).record_stream(current) for one in dataclasses.fields(batch)]",
        "self.stream.wait_stream(current)",
    ],
)
def test_whoever_keeps_its_parts_keeps_it(tmp_path: Path, kept: str) -> None:
    assert not sure(tmp_path, FEEDER.format(kept=kept))


def test_so_does_a_loop(tmp_path: Path) -> None:
    kept = "moved.apply(lambda x: x.record_stream(torch.cuda.current_stream()))"
    assert not sure(tmp_path, LOOP.format(kept=kept))
    assert not sure(tmp_path, LOOP.format(kept="side.wait_stream(torch.cuda.current_stream())"))


FLAGS = """\
import torch


class Runner:
    def __init__(self, model):
        self.model = model
        self.graph = torch.cuda.CUDAGraph()

    def capture(self, batch):
        batch = batch.to("cuda", non_blocking=True)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            if batch.extends or batch.padded > 3:
                batch = batch * 2
            self.out = self.model(batch.ids)
        return self.out
"""


def test_a_flag_of_it_is_no_tensor(tmp_path: Path) -> None:
    assert not sure(tmp_path, FLAGS)
