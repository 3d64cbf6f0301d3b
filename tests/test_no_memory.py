"""What is no memory, or no memory of a device, is not ordered by streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.run import engine
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path


def sure(root: Path, text: str) -> set[str]:
    """The codes of what is found in a program at the default confidence."""
    found = engine.analyze(root, written(root, {"run.py": text}), engine.Settings()).findings
    return {finding.code for finding in found if finding.confidence is not Confidence.POSSIBLE}


GATHERED = """\
import torch
from sends import start

def gathered(x: torch.Tensor, y: torch.Tensor):
    comm = torch.cuda.Stream()
    comm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(comm):
        first = start(x)
        second = start(y)
    x.record_stream(comm)
    y.record_stream(comm)
    {used}
    torch.cuda.current_stream().wait_stream(comm)
"""
COLLECTED = """\
import torch
from sends import start

class Exchange:
    def __init__(self):
        self.comm = torch.cuda.Stream()

    def shift(self, x: torch.Tensor, y: torch.Tensor):
        self.comm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm):
            first = start(x)
            second = start(y)
        everything = first + second
        {used}
        torch.cuda.current_stream().wait_stream(self.comm)
"""


@pytest.mark.parametrize("program", [GATHERED, COLLECTED])
@pytest.mark.parametrize(
    ("used", "found"),
    [
        ("for work in first + second: work.wait()", False),
        ("print((first + second)[0].wait())", False),
        ("print((first + second)[0].sum())", True),
    ],
)
def test_lists_of_handles_are_no_tensors(tmp_path: Path, program: str, used: str, *, found: bool) -> None:
    used = used.replace("(first + second)", "everything") if program is COLLECTED else used
    used = used.replace("first + second", "everything") if program is COLLECTED else used
    assert ("SL101" in sure(tmp_path, program.format(used=used))) is found


SAVED = """\
import torch
{imported}

def saved(obj, pickled):
    lane = torch.cuda.Stream()
    {called}
    with torch.cuda.stream(lane):
        made = pickled.Pickler(obj)
    lane.synchronize()
    return made
"""


@pytest.mark.parametrize(
    ("imported", "called", "found"),
    [
        ("from torch.serialization import _check_dill_version", "_check_dill_version(pickled)", False),
        ("", "torch.fx.wrap(pickled)", False),
        ("", "torch.overrides.is_tensor_like(pickled)", False),
        ("", "torch.relu(pickled)", True),
        ("", "torch.linalg.norm(pickled)", True),
    ],
)
def test_not_all_functions_of_pytorch_are_operators(
    tmp_path: Path, imported: str, called: str, *, found: bool
) -> None:
    text = SAVED.format(imported=imported, called=called)
    assert ("SL101" in sure(tmp_path, text)) is found


STORED = """\
import torch

def stored(buf, x: torch.Tensor, half: torch.Tensor):
    lane = torch.cuda.Stream()
    lane.wait_stream(torch.cuda.current_stream())
    made = buf * 2
    {wait}
    with torch.cuda.stream(lane):
        buf[{at}] = x
    {after}
    torch.cuda.current_stream().wait_stream(lane)
    return made
"""


@pytest.mark.parametrize(("at", "found"), [(":16", True), ("half, :4", True), ("0", False)])
def test_a_slice_of_what_is_stored_into_shows_memory(tmp_path: Path, at: str, *, found: bool) -> None:
    racy = STORED.format(at=at, wait="", after="x.record_stream(lane)")
    right = STORED.format(
        at=at, wait="lane.wait_stream(torch.cuda.current_stream())", after="x.record_stream(lane)"
    )
    assert ("SL102" in sure(tmp_path, racy)) is found
    assert not sure(tmp_path, right)


RESCALED = """\
import torch

def rescaled(lse, half: torch.Tensor, block: torch.Tensor, n: int):
    lane = torch.cuda.Stream()
    lanes = [torch.cuda.current_stream(), lane]
    for i in range(n):
        lanes[i % 2].wait_stream(lanes[(i + 1) % 2])
        with torch.cuda.stream(lanes[i % 2]):
            old = lse[half] * 2
            lse[half] = torch.log(block + old)
    torch.cuda.current_stream().wait_stream(lane)
"""


def test_what_is_stored_at_the_places_of_a_tensor_is_copied_and_not_kept(tmp_path: Path) -> None:
    assert not sure(tmp_path, RESCALED)


MOVED = """\
import torch
import numpy
{imported}

def moved(config, rows: numpy.ndarray):
    lane = torch.cuda.Stream()
    page = {page}
    part = page[:16].clone()
    with torch.cuda.stream(lane):
        there = part * 2
    torch.cuda.current_stream().wait_stream(lane)
    return there
"""


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("torch.from_numpy(numpy.zeros(64)).type(torch.float32)", False),
        ("torch.zeros(64).type(torch.float16)", False),
        ("torch.FloatTensor(64).mul(2)", False),
        ("torch.cuda.FloatTensor(64).mul(2)", True),
        ("torch.hann_window(64)", False),
        ("torch.normal(0.0, 1.0, (64,))", False),
        ('torch.normal(0.0, 1.0, (64,), device="cuda")', True),
        ("torch.arange(64).float() / config.dim", False),
        ('torch.arange(64, device="cuda").float() / config.dim', True),
        ("torch.from_dlpack(rows)", False),
        ("torch.as_tensor(rows, dtype=torch.float32)", False),
        ('torch.hann_window(64, device="cuda")', True),
        ('torch.from_file("page", size=64)', False),
        ("torch.nn.utils.rnn.pad_sequence([torch.ones(64), torch.ones(32)])", False),
        ('torch.nn.utils.rnn.pad_sequence([torch.ones(64, device="cuda")])', True),
        ("torch.from_numpy(numpy.ascontiguousarray(numpy.ones(64)[::-1])).to(torch.int32)", False),
        ("torch.zeros(64).type(torch.cuda.FloatTensor)", True),
        ('torch.zeros(64).type("torch.cuda.FloatTensor")', True),
        ('torch.zeros(64, device="cuda").type(torch.float32)', True),
        ("torch.from_numpy(importlib.import_module('numpy').zeros(64))", False),
    ],
)
def test_another_type_is_where_the_tensor_was(tmp_path: Path, page: str, *, found: bool) -> None:
    text = MOVED.format(imported="import importlib", page=page)
    assert ("SL101" in sure(tmp_path, text)) is found


STAGED = """\
import cupy
import numpy

class Block:
    def __init__(self, pointer, n):
        self.__array_interface__ = {{"data": (pointer, False), "shape": (n,), "typestr": "|u1", "version": 3}}

def staged(pool, n):
    lane = cupy.cuda.Stream(non_blocking=True)
    page = {page}
    page.fill(0)
    out = cupy.empty(n, numpy.uint8)
    lane.wait_event(cupy.cuda.get_current_stream().record())
    out.set(page, stream=lane)
    {waits}
    page.fill(1)
    lane.synchronize()
    return out
"""
PINNED = "numpy.asarray(Block(cupy.cuda.runtime.hostAlloc(n, 0), n)).view(numpy.uint8)"


@pytest.mark.parametrize(
    ("page", "waits", "found"),
    [
        ("numpy.asarray(Block(pool.take(n), n)).view(numpy.uint8)", "pass", False),
        ("numpy.asarray(pool.take(n))", "pass", False),
        (PINNED, "lane.synchronize()", False),
        (PINNED, "pass", True),
    ],
)
def test_objects_with_an_array_interface_are_what_their_address_is(
    tmp_path: Path, page: str, waits: str, *, found: bool
) -> None:
    codes = sure(tmp_path, STAGED.format(page=page, waits=waits))
    assert codes == ({"SL202"} if found else set())
