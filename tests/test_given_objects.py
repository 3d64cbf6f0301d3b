"""The class of an object that is passed: from an annotation, from callers in the tree, or from its use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.run import engine
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

MIXER = """\
import torch

class Mixer:
    def __init__(self):
        self.lane = torch.cuda.Stream()
        self.out = torch.zeros(8, device="cuda")

    def begin(self):
        with torch.cuda.stream(self.lane):
            self.out.normal_()
"""
PLAYER = """\
import torch

class Player:
    def __init__(self, source):
        self.source = source

    def play(self):
        self.source.begin(){before}
        total = self.source.out.sum(){after}
        return total
"""
WAIT = "\n        torch.cuda.current_stream().wait_stream(self.source.lane)"
LATE = PLAYER.format(before="", after=WAIT)
IN_TIME = PLAYER.format(before=WAIT, after="")
CALLER = """\
from mixer import Mixer
from player import Player

def player():
    return Player(Mixer())
"""


def confidences(folder: Path, **files: str) -> list[Confidence]:
    found = written(folder, {f"{name}.py": text for name, text in files.items()})
    return [one.confidence for one in engine.analyze(folder, found, engine.Settings()).findings]


def test_a_caller_in_another_module_shows_the_class(tmp_path: Path) -> None:
    found = confidences(tmp_path, mixer=MIXER, player=LATE, caller=CALLER)
    assert found
    assert set(found) == {Confidence.POSSIBLE}, "the places stand in two files"


def test_a_caller_shows_the_class(tmp_path: Path) -> None:
    found = confidences(tmp_path, all=MIXER + LATE + CALLER.partition("\n\n")[2])
    assert found.count(Confidence.CERTAIN) == 1
    assert Confidence.LIKELY not in found


def test_what_is_left_between_two_calls_is_the_business_of_who_passes_the_object(tmp_path: Path) -> None:
    found = confidences(tmp_path, mixer=MIXER, player=IN_TIME, caller=CALLER)
    assert set(found) == {Confidence.POSSIBLE}


@pytest.mark.parametrize(
    ("others", "expected"),
    [("", {Confidence.LIKELY, Confidence.POSSIBLE}), (MIXER.replace("Mixer", "Other"), set())],
)
def test_the_only_class_that_fits_is_a_guess(tmp_path: Path, others: str, expected: set[Confidence]) -> None:
    text = MIXER + others + LATE
    assert set(confidences(tmp_path, all=text)) == expected


def test_a_class_that_makes_another_of_itself_ends(tmp_path: Path) -> None:
    text = """\
import torch

class Node:
    def __init__(self, parent: "Node"):
        self.side = torch.cuda.Stream()
        self.depth = parent.depth + 1

    def run(self, x):
        with torch.cuda.stream(self.side):
            return x * self.depth
"""
    report = engine.analyze(tmp_path, written(tmp_path, {"node.py": text}), engine.Settings())
    assert (report.analyzed, report.errors, report.statistics.cut) == (1, (), 0)


def test_a_budget_that_ends_in_the_constructor_of_a_given_object_is_a_cut(tmp_path: Path) -> None:
    """The functions around it were popped off a list that was no longer theirs."""
    many = "\n".join(f"        for i{n} in range(9):\n            y = {n}" for n in range(3000))
    heavy = MIXER.replace("    def begin", f"{many}\n\n    def begin")
    found = written(tmp_path, {"mixer.py": heavy, "player.py": LATE, "caller.py": CALLER})
    report = engine.analyze(tmp_path, found, engine.Settings())
    assert report.errors == ()
    assert report.statistics.cut


BATCH = """\
import torch

class Batch:
    @staticmethod
    def generate(n, world, device, pin=False):
        batches = []
        for r in range(world):
            noise = torch.rand(n, device=device)
            if pin:
                noise = Batch.pinned(noise)
            batches.append(noise)
        return batches

    @staticmethod
    def pinned(noise: torch.Tensor):
        return noise.pin_memory()

    def record(self, stream: torch.cuda.Stream):
        self.noise.record_stream(stream)
"""
GENERATED = """\
import torch
from batch import Batch

def run(n, world):
    return Batch.generate(n, world, device=torch.device("cuda"))

def other(n, world, pin):
    return Batch.generate(n, world, device=torch.device("cuda:0"), pin=pin)
"""


def test_what_is_pinned_was_made_on_the_host_whatever_device_callers_pass(tmp_path: Path) -> None:
    assert confidences(tmp_path, batch=BATCH, caller=GENERATED) == []
    alone = BATCH.replace("Batch.pinned(noise)", "noise.to('cpu', non_blocking=True).add_(1)")
    assert confidences(tmp_path, batch=alone, caller=GENERATED)


LOADER = """\
import torch


class Loader:
    def __init__(self, pool, n):
        self.pool = pool
        self.n = n
        self.lane = torch.cuda.Stream()

    def load(self, chunks):
        page = self.pool.allocate(self.n, chunks)
        with torch.cuda.stream(self.lane):
            for chunk in chunks:
                page.tensor[: chunk.size].copy_(chunk.host, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.lane)
        return page.tensor
"""


def test_what_a_pool_hands_out_was_not_written_by_handing_it_out(tmp_path: Path) -> None:
    assert Confidence.LIKELY not in confidences(tmp_path, loader=LOADER)
