"""Calls repeat while what outlives them changes: attributes, variables of modules and classes, iterators."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence, leading
from streamlint.run import engine

if TYPE_CHECKING:
    from pathlib import Path

UPLOAD = """
    {wait}page.numpy()[:] = array
    dev.copy_(page, non_blocking=True)
    sent.record()
"""

COUNTER = """
import torch

_pages = [torch.empty(1024, pin_memory=True) for _ in range(2)]
_sent = [torch.cuda.Event() for _ in range(2)]
_at = 0

def upload(array, dev):
    global _at
    page, sent = _pages[_at], _sent[_at]
    _at = 1 - _at
    {upload}
"""
STEPPED = """
import itertools
import torch

_pages = [torch.empty(1024, pin_memory=True) for _ in range(3)]
_sent = [torch.cuda.Event() for _ in range(3)]
_number = itertools.count()

def upload(array, dev):
    slot = next(_number) % 3
    page, sent = _pages[slot], _sent[slot]
    {upload}
"""
IN_CLASS = """
import torch

class Uploader:
    pages = [torch.empty(1024, pin_memory=True) for _ in range(3)]
    sent = [torch.cuda.Event() for _ in range(3)]
    turn = 0

    @classmethod
    def step(cls):
        cls.turn = (cls.turn + 1) % 3
        return cls.turn

    def upload(self, array, dev):
        slot = self.step()
        page, sent = self.pages[slot], self.sent[slot]
        {upload}
"""
ZIPPED = """
import itertools
import torch

class Uploader:
    def __init__(self):
        self.slots = itertools.cycle(range(2))
        self.pages = [torch.empty(1024, pin_memory=True) for _ in range(2)]
        self.sent = [torch.cuda.Event() for _ in range(2)]

    def upload(self, array, dev):
        slot = next(self.slots)
        page, sent = self.pages[slot], self.sent[slot]
        {upload}
"""
REMEMBERED = """
import functools
import torch

@functools.lru_cache
def page_of(n):
    return torch.empty(n, pin_memory=True), torch.cuda.Event()

def upload(array, dev):
    page, sent = page_of(1024)
    {upload}
"""


def found(tmp_path: Path, source: str) -> list[tuple[str, Confidence]]:
    file = tmp_path / "program.py"
    file.write_text(source)
    report = engine.analyze(tmp_path, [file], engine.Settings())
    assert not report.errors
    return [(one.code, one.confidence) for one in leading(report.findings)]


@pytest.mark.parametrize("program", [COUNTER, STEPPED, IN_CLASS, ZIPPED, REMEMBERED])
def test_a_page_is_used_again_when_its_turn_comes(tmp_path: Path, program: str) -> None:
    def written(wait: str) -> str:
        indent = program.rpartition("{upload}")[0].rpartition("\n")[2]
        body = textwrap.indent(textwrap.dedent(UPLOAD.format(wait=wait)).strip(), indent).lstrip()
        return program.replace("{upload}", body)

    assert found(tmp_path, written("")) == [("SL202", Confidence.LIKELY)]
    assert found(tmp_path, written("sent.synchronize(); ")) == []


FLUSHED = """
import torch

_page = torch.empty(1024, pin_memory=True)
_lane = torch.cuda.Stream()

def upload(array, dev):
    _page.numpy()[:] = array
    with torch.cuda.stream(_lane):
        dev.copy_(_page, non_blocking=True)

{other}
"""


def test_a_function_that_waits_for_the_same_state_may_be_called_between(tmp_path: Path) -> None:
    flush = "def flush():\n    _lane.synchronize()\n"
    codes = [
        confidence for code, confidence in found(tmp_path, FLUSHED.format(other=flush)) if code == "SL202"
    ]
    assert codes == [Confidence.POSSIBLE]
    unrelated = "def wait_for(event):\n    event.synchronize()\n"
    codes = [
        confidence for code, confidence in found(tmp_path, FLUSHED.format(other=unrelated)) if code == "SL202"
    ]
    assert codes == [Confidence.LIKELY]
