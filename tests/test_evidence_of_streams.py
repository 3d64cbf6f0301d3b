"""A finding is as sure as it is that its streams are two, and on the devices that they are taken to be on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.run import engine
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

LANES = """\
import torch

class Lanes:
    def __init__(self{given}):
        self.lanes = {lanes}

    def run(self, a, b, n):
        with torch.cuda.stream(self.lanes[{first}]):
            y = torch.full((n,), 2.0, device="cuda")
        with torch.cuda.stream(self.lanes[{second}]):
            return float(y.sum())
"""
TWO = "[torch.cuda.Stream(), torch.cuda.Stream()]"
MANY = "[torch.cuda.Stream() for _ in range(n)]"
BY_NAME = "{name: torch.cuda.Stream() for name in names}"


def surest(root: Path, text: str, code: str = "SL101") -> Confidence | None:
    report = engine.analyze(root, written(root, {"run.py": text}), engine.Settings())
    sure = [one.confidence for one in report.findings if one.code == code]
    return max(sure, key=lambda one: one.rank, default=None)


@pytest.mark.parametrize(("lanes", "given"), [(TWO, ""), (MANY, ", n"), (BY_NAME, ", names")])
def test_what_unknown_numbers_choose_may_be_one_stream(tmp_path: Path, lanes: str, given: str) -> None:
    text = LANES.format(given=given, lanes=lanes, first="a", second="b")
    assert surest(tmp_path, text) is Confidence.POSSIBLE


@pytest.mark.parametrize(
    ("lanes", "given", "first", "second"),
    [
        (TWO, "", "0", "1"),
        (MANY, ", n", "0", "1"),
        ("{'h2d': torch.cuda.Stream(), 'd2h': torch.cuda.Stream()}", "", "'h2d'", "'d2h'"),
        (BY_NAME, ", names", "'h2d'", "'d2h'"),
    ],
)
def test_what_known_keys_choose_are_two(
    tmp_path: Path, lanes: str, given: str, first: str, second: str
) -> None:
    text = LANES.format(given=given, lanes=lanes, first=first, second=second)
    assert surest(tmp_path, text) is Confidence.CERTAIN


DEVICES = """\
import torch

def fetch(n, device):
    with torch.cuda.device({work}):
        x = torch.full((n,), 2.0, device="cuda")
        page = torch.empty(n, pin_memory=True)
        page.copy_(x, non_blocking=True)
    torch.cuda.synchronize({waited})
    return page.sum()
"""


@pytest.mark.parametrize(
    ("work", "waited", "expected"),
    [
        ("1", "device", Confidence.POSSIBLE),
        ("1", "torch.device(device)", Confidence.POSSIBLE),
        ("1", "", Confidence.CERTAIN),
        ("1", "2", Confidence.CERTAIN),
        ("1", "1", None),
        ("device", "device", None),
    ],
)
def test_a_device_that_a_variable_names_may_be_any(
    tmp_path: Path, work: str, waited: str, expected: Confidence | None
) -> None:
    text = DEVICES.format(work=work, waited=waited)
    found = [surest(tmp_path, text, code) for code in ("SL105", "SL201")]
    assert max((one for one in found if one), key=lambda one: one.rank, default=None) is expected
