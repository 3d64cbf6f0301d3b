"""Memory that is handed out again, as a run shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.confirm.observe.events import (
    Touch,
)
from streamlint.trace import (
    Alloc,
    Free,
    FreeKind,
    HostEffect,
    Mode,
    Space,
)
from tests.observed_run import DEFAULT, OTHER, SIDE, Run

if TYPE_CHECKING:
    from pathlib import Path


def freed_early(run: Run, *, kept: bool = False, reused: int = 0x1000) -> None:
    x = run.block(0x1000)
    run.work(DEFAULT, (x, Mode.WRITE))
    run.record(7, DEFAULT)
    run.wait(SIDE, 7)
    run.work(SIDE, (x, Mode.READ))
    if kept:
        run.recorder.keep(x, run.stream(SIDE))
    run.recorder.died(0x1000, FreeKind.DROPPED)
    run.work(DEFAULT, (run.block(reused), Mode.WRITE))


def test_memory_that_was_handed_out_again_too_early(tmp_path: Path) -> None:
    run = Run(tmp_path)
    freed_early(run)
    assert [type(op) for op in run.trace().ops if isinstance(op, (Alloc, Free))] == [Alloc, Free, Alloc]
    assert run.codes() == ["SL401"]


def test_memory_that_record_stream_kept_back(tmp_path: Path) -> None:
    run = Run(tmp_path)
    freed_early(run, kept=True)
    assert run.codes() == []


def test_a_drop_whose_memory_was_not_handed_out_again(tmp_path: Path) -> None:
    run = Run(tmp_path)
    freed_early(run, reused=0x8000)
    assert not any(isinstance(op, Free) for op in run.trace().ops)
    assert run.codes() == []


def test_a_part_of_the_memory_is_enough(tmp_path: Path) -> None:
    run = Run(tmp_path)
    freed_early(run, reused=0x1020)
    assert run.codes() == ["SL401"]


@pytest.mark.parametrize(("waits", "found"), [(False, ["SL403"]), (True, [])])
def test_memory_whose_last_user_was_its_own_stream(tmp_path: Path, waits: bool, found: list[str]) -> None:
    """``(x * 2).sum(); out = torch.empty(n)``, which another stream fills."""
    run = Run(tmp_path)
    product = run.block(0x1000)
    run.work(DEFAULT, (product, Mode.WRITE))
    run.recorder.died(0x1000, FreeKind.DROPPED)
    out = run.block(0x1000)
    if waits:
        run.record(7, DEFAULT)
        run.wait(SIDE, 7)
    run.work(SIDE, (out, Mode.WRITE))
    assert run.codes() == found


@pytest.mark.parametrize(("waits", "found"), [(False, ["SL403"]), (True, [])])
def test_memory_that_another_stream_had_filled_before(tmp_path: Path, waits: bool, found: list[str]) -> None:
    """``batch = torch.empty(n)``, filled aside and doubled here, with each request."""
    run = Run(tmp_path)
    for _ in range(2):
        batch = run.block(0x1000)
        if waits:
            run.record(7, DEFAULT)
            run.wait(SIDE, 7)
        run.work(SIDE, (batch, Mode.WRITE))
        run.record(8, SIDE)
        run.wait(DEFAULT, 8)
        run.work(DEFAULT, (batch, Mode.READ))
        run.recorder.died(0x1000, FreeKind.DROPPED)
    assert run.codes() == found


def test_a_use_that_the_drop_did_not_wait_for_is_told_once(tmp_path: Path) -> None:
    """A third stream fills what a second one still reads: the drop was too early, not the allocation."""
    run = Run(tmp_path)
    freed_early(run, reused=0x8000)
    out = run.block(0x1000)
    run.record(9, DEFAULT)
    run.wait(OTHER, 9)
    run.work(OTHER, (out, Mode.WRITE))
    assert run.codes() == ["SL401"]


@pytest.mark.parametrize(("library", "found"), [("", ["SL401"]), ("PyTorch", [])])
def test_a_page_of_a_pool_that_knows_its_own_copies(tmp_path: Path, library: str, found: list[str]) -> None:
    """``cudaMemcpyAsync(target, torch.full((n,), 7.0, pin_memory=True).data_ptr(), ...)``."""
    run = Run(tmp_path)
    x = run.block(0x9000)
    for _ in range(2):
        page = run.recorder.born(0x1000, 64, Space.PINNED, "cpu")
        page.pool, page.pool_awaits = "the pool", "PyTorch"
        ends = Touch(page, Mode.READ, 0, 64), Touch(x, Mode.WRITE, 0, 64)
        run.recorder.move(run.stream(SIDE), "copy", *ends, HostEffect.ASYNC, library)
        run.recorder.died(0x1000, FreeKind.DROPPED)
    assert run.codes() == found
