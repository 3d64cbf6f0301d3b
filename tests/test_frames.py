"""A call with room on the stack of frames is a call, and Python's collector is as it was after a run."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import pytest

from streamlint.run import engine, frames
from tests.test_tree import RACE, written

if TYPE_CHECKING:
    from pathlib import Path


def down(depth: int) -> int:
    return depth and 1 + down(depth - 1)


def test_what_is_called_with_room_returns_and_raises_as_usual() -> None:
    depth = sys.getrecursionlimit() // 2
    assert frames.with_room(lambda: down(depth)) == depth
    with pytest.raises(ZeroDivisionError):
        frames.with_room(lambda: 1 // 0)


@pytest.mark.parametrize("enabled", [True, False])
def test_a_run_leaves_the_collector_as_it_was(tmp_path: Path, enabled: bool) -> None:
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        engine.analyze(tmp_path, written(tmp_path, {"race.py": RACE}), engine.Settings())
        assert gc.isenabled() == enabled
        assert gc.get_freeze_count() == 0
    finally:
        (gc.enable if before else gc.disable)()
