"""An event that came with a call was recorded before it: after nothing that the call itself has done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.run import engine
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

JOBS = """\
import torch


def drain(jobs, pages):
    down, up = torch.cuda.Stream(), torch.cuda.Stream()
    scratch = torch.empty(1 << 20, device="cuda")
    torch.cuda.synchronize()
    for (page, ready), (other, granted) in zip(jobs, pages):
        with torch.cuda.stream(up):
            scratch.copy_(page.pin_memory(), non_blocking=True)
        {told}
        down.wait_event({event})
        with torch.cuda.stream(down):
            other.copy_(scratch, non_blocking=True)
    torch.cuda.synchronize()
"""
STAGED = """\
import torch


def staged(frame: torch.Tensor, ready: torch.cuda.Event) -> torch.Tensor:
    lane, other = torch.cuda.Stream(), torch.cuda.Stream()
    out = torch.zeros(64, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(lane):
        out += 1
    {told}
    other.wait_event(ready)
    with torch.cuda.stream(other):
        out *= 2
    torch.cuda.synchronize()
    return out
"""


def surest(root: Path, text: str) -> set[Confidence]:
    found = engine.analyze(root, written(root, {"run.py": text}), engine.Settings()).findings
    return {finding.confidence for finding in found if finding.code in ("SL101", "SL102")}


@pytest.mark.parametrize("event", ["ready", "granted"])
def test_what_a_list_of_jobs_brings_orders_nothing_done_since(tmp_path: Path, event: str) -> None:
    assert Confidence.LIKELY in surest(tmp_path, JOBS.format(event=event, told="pass"))
    told = f"{event}.record(up)"
    assert Confidence.LIKELY not in surest(tmp_path, JOBS.format(event=event, told=told))


def test_nor_does_an_argument(tmp_path: Path) -> None:
    assert Confidence.LIKELY in surest(tmp_path, STAGED.format(told="pass"))
    assert not surest(tmp_path, STAGED.format(told="ready.record(lane)")) - {Confidence.POSSIBLE}


@pytest.mark.parametrize("event", ["frame.done", "launch(frame)", "queue.get()"])
def test_what_an_object_or_a_call_gives_may_be_of_later(tmp_path: Path, event: str) -> None:
    text = STAGED.format(told="frame.start()").replace("wait_event(ready)", f"wait_event({event})")
    assert surest(tmp_path, text) <= {Confidence.POSSIBLE}
