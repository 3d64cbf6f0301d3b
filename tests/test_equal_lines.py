"""Two files with the same text in the same line: what they make is not one thing, as messages tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint import check_paths
from streamlint.source import Span

if TYPE_CHECKING:
    from pathlib import Path

LANE = "def lane(pool):\n    return pool.pick()\n"
USE = """
import torch
import left
import right


def doubled(pool, x):
    first = left.lane(pool)
    second = right.lane(pool)
    y = torch.empty_like(x)
    torch.cuda.current_stream().synchronize()
    with torch.cuda.stream(first):
        y.copy_(x)
    with torch.cuda.stream(second):
        z = y * 2
    torch.cuda.synchronize()
    return z
"""
MADE = """
import torch


def lane():
    return torch.cuda.Stream()
"""
PASSED = """
import torch
import left
import right


def on(stream, x):
    with torch.cuda.stream(stream):
        return x * 2


def doubled(x):
    torch.cuda.current_stream().synchronize()
    y = on(left.lane(), x)
    z = on(right.lane(), y)
    torch.cuda.synchronize()
    return z
"""
DRAINED = """
import torch
from steps import doubled


def fit():
    side, seen = torch.cuda.Stream(), 0.0
    x = torch.full((8,), 1.0, device="cuda")
    with torch.cuda.stream(side):
        for _ in range(4):
            x = doubled(x)
            seen += x[0].item()
    return seen
"""
WORK = """
import torch







def doubled(x):
    # in the line in which the other file reads
    return x * 2
"""


@pytest.mark.parametrize("ahead", ["", "# further down\n"])
def test_what_two_files_get_is_not_one_value(tmp_path: Path, ahead: str) -> None:
    (tmp_path / "left.py").write_text(LANE)
    (tmp_path / "right.py").write_text(ahead + LANE)
    (tmp_path / "use.py").write_text(USE)
    assert [finding.code for finding in check_paths([tmp_path], min_confidence="possible").findings] == [
        "SL101"
    ]


@pytest.mark.parametrize("ahead", ["", "# further down\n"])
def test_streams_of_two_files_are_told_apart_by_lines_and_files(tmp_path: Path, ahead: str) -> None:
    (tmp_path / "left.py").write_text(MADE)
    (tmp_path / "right.py").write_text(ahead + MADE)
    (tmp_path / "use.py").write_text(PASSED)
    messages = [one.message for one in check_paths([tmp_path]).findings if one.code == "SL101"]
    assert len(messages) == 1
    assert all(
        file in messages[0] for file in ("in line 6 of left.py", f"in line {6 + bool(ahead)} of right.py")
    )


def test_work_in_the_same_line_of_another_file_is_other_work(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(WORK)
    (tmp_path / "use.py").write_text(DRAINED)
    work, read = (text.splitlines() for text in (WORK, DRAINED))
    assert work.index("    return x * 2") == read.index("            seen += x[0].item()")
    found = check_paths([tmp_path], select=["SL902"], min_confidence="possible").findings
    assert [finding.code for finding in found] == ["SL902"]


def test_a_line_is_told_with_its_file_to_who_reads_another_one() -> None:
    here, there = Span("pipe/run.py", 3, 0, 3, 9), Span("pipe/lanes.py", 7, 4, 7, 9)
    assert there.line_from(there) == "line 7"
    assert there.line_from(here) == "line 7 of lanes.py"
    assert Span(r"pipe\lanes.py", 7, 4, 7, 9).line_from(here) == "line 7 of lanes.py"
    assert Span("copy/run.py", 5, 0, 5, 9).line_from(here) == "line 5 of copy/run.py"
