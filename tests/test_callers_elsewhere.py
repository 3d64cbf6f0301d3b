"""What is pending on an argument is taken for granted only where nothing in the tree calls the function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint import check_paths

if TYPE_CHECKING:
    from pathlib import Path

SCALE = """
import torch

SIDE = torch.cuda.Stream()


def scale(x: torch.Tensor):
    with torch.cuda.stream(SIDE):
        y = x * 2
    torch.cuda.current_stream().wait_stream(SIDE)
    return y


class Scaler:
    def __init__(self):
        self.side = torch.cuda.Stream()

    def doubled(self, x):
        with torch.cuda.stream(self.side):
            y = x * 2
        torch.cuda.current_stream().wait_stream(self.side)
        y.record_stream(torch.cuda.current_stream())
        x.record_stream(self.side)
        return y
"""

WAITS = "torch.cuda.current_stream().synchronize()"
FUNCTION = f"""
import torch
from scaling import scale


def run(loader, step):
    for x in loader:
        y = step(x)
        {WAITS}
        yield scale(y)
"""
METHOD = f"""
import torch


def run(scaler, loader):
    for x in loader:
        {WAITS}
        scaler.doubled(x)
"""
SCRIPT = f"""
import torch
import scaling

for x in loader:
    {WAITS}
    scaling.scale(x)
"""
OF_LIBRARY = f"""
import torch


def run(loader):
    scale = torch.cuda.Stream()
    for x in loader:
        {WAITS}
        torch.doubled(x)
        with torch.cuda.stream(scale):
            x.sum()
"""
NO_STREAMS = "import scaling\n\ndef run(x):\n    return scaling.scale(x)\n"
OWN = "def scale(x):\n    return x\n\ndef doubled(x):\n    return x\n"


@pytest.mark.parametrize(
    ("other", "sure"),
    [
        (FUNCTION, {"doubled"}),
        (METHOD, {"scale"}),
        (SCRIPT, {"doubled"}),
        (OF_LIBRARY, {"doubled", "scale"}),
        (NO_STREAMS, {"doubled", "scale"}),
        (OWN, {"doubled", "scale"}),
    ],
)
def test_what_callers_leave_pending_is_judged_where_they_are_in_sight(
    tmp_path: Path, other: str, sure: set[str]
) -> None:
    (tmp_path / "scaling.py").write_text(SCALE)
    (tmp_path / "other.py").write_text(other)
    found = check_paths(tmp_path, min_confidence="possible", jobs=1).findings
    early = [finding for finding in found if finding.code == "SL101" and "scaling" in finding.primary.path]
    assert {finding.function.rpartition(".")[2] for finding in early} >= {"scale", "doubled"}
    assert {f.function.rpartition(".")[2] for f in early if f.confidence.name != "POSSIBLE"} == sure


HANDS_ON = """
import torch
from scaling import scale


class Block:
    def __init__(self, inner):
        self.inner = inner
        self.side = torch.cuda.Stream()

    def doubled_twice(self, x, shape):
        x = x.view(-1)
        return self.inner.doubled(x.view(shape))

    def run(self, x):
        return self.doubled_twice(x, (2, -1))


def scaled(x):
    return scale(x[0])
"""
ORDERS_BEFORE = f"""
from scaling import scale


def scaled(x):
    return scale(x)


def run(x):
    {WAITS.replace("torch.", "__import__('torch').")}
    return scaled(x)
"""
HAS_IT_ITSELF = """
import torch
from scaling import scale


class Rows:
    def __init__(self):
        self.side = torch.cuda.Stream()
        self.rows = torch.ones(1 << 20, device="cuda")

    def scaled(self):
        return scale(self.rows)
"""


@pytest.mark.parametrize(
    ("other", "sure"),
    [(HANDS_ON, {"doubled", "scale"}), (ORDERS_BEFORE, {"doubled"}), (HAS_IT_ITSELF, {"doubled"})],
)
def test_who_only_hands_on_what_it_is_given_shows_nothing(tmp_path: Path, other: str, sure: set[str]) -> None:
    (tmp_path / "scaling.py").write_text(SCALE)
    (tmp_path / "other.py").write_text(other)
    found = check_paths(tmp_path, min_confidence="possible", jobs=1).findings
    early = [finding for finding in found if finding.code == "SL101" and "scaling" in finding.primary.path]
    assert {f.function.rpartition(".")[2] for f in early if f.confidence.name != "POSSIBLE"} == sure


ENTERS = """
import torch
from typing import Any, Callable, Optional


def lookup(rows: torch.Tensor, side: Optional[torch.Stream], stream_context: Callable[..., Any]):
    with stream_context(side):
        side.wait_stream(torch.cuda.current_stream())
        found = torch.ones(8, device="cuda")
    return found.sum()
"""
PASSES = """
import torch
from lookups import lookup


class Pipeline:
    def __init__(self, device):
        self.enter = torch.get_device_module(device).stream if device.type == "cuda" else torch.cuda.stream

    def step(self, rows, side):
        return lookup(rows, side, stream_context=self.enter)
"""
OTHERS = """
import contextlib
from lookups import lookup


def step(rows, side):
    return lookup(rows, side, contextlib.nullcontext)
"""


@pytest.mark.parametrize(("other", "lines"), [(PASSES, {10}), (OTHERS, set())])
def test_what_callers_pass_to_enter_a_stream(tmp_path: Path, other: str, lines: set[int]) -> None:
    (tmp_path / "lookups.py").write_text(ENTERS)
    (tmp_path / "other.py").write_text(other)
    found = check_paths(tmp_path, min_confidence="possible", jobs=1).findings
    assert {one.primary.line for one in found if one.code == "SL101"} == lines


MOVE = """
import torch


def moved(rows: torch.Tensor, as_array: bool = False):
    if rows.is_cuda:
        host = rows.to("cpu", non_blocking=True)
        rows = host.numpy() if as_array else host
    return rows
"""
ALL_AT_ONCE = """
import torch
from moving import moved


class Counts:
    def __init__(self):
        self.side = torch.cuda.Stream()

    def take(self, rows, sizes):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            rows, sizes = moved(rows), moved(sizes, as_array=True)
        self.side.synchronize()
        return rows, sizes
"""


@pytest.mark.parametrize(
    ("other", "sure"), [("", {"SL201"}), (ALL_AT_ONCE, set())], ids=["nobody", "who waits"]
)
def test_who_waits_for_an_array_that_is_handed_out(tmp_path: Path, other: str, sure: set[str]) -> None:
    (tmp_path / "moving.py").write_text(MOVE)
    (tmp_path / "counting.py").write_text(other)
    found = check_paths(tmp_path, jobs=1).findings
    assert {one.code for one in found if "moving" in one.primary.path} == sure
