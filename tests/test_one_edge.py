"""One missing edge is one finding: what one wait orders is told once, and nothing else with it."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from streamlint.api import check_paths
from streamlint.finding import SAME_EDGE, Confidence, Finding, leading
from streamlint.judging.merging import mended_alike
from streamlint.output import json as as_json
from streamlint.run import engine

if TYPE_CHECKING:
    from pathlib import Path

CALLERS = """
import torch

side = torch.cuda.Stream()

def scaled(x):
    {wait}
    with torch.cuda.stream(side):
        y = x * 2
    torch.cuda.current_stream().wait_stream(side)
    return y

def padded(n):
    x = torch.zeros(n, device="cuda")
    return scaled(x)

def joined(n):
    x = torch.cat([torch.ones(n, device="cuda"), torch.ones(n, device="cuda")])
    return scaled(x)

def filled(n):
    x = torch.empty(n, device="cuda")
    x.fill_(3.0)
    return scaled(x)
"""
SLOTS = """
import torch

class Slot:
    def __init__(self, n, device):
        self.p = torch.empty(n, dtype=torch.float32, device="cuda")
        self.g = torch.empty(n, dtype=torch.float32, device="cuda")
        self.m = torch.empty(n, dtype=torch.float32, device="cuda")

def upload(p, g, m, x):
    h2d = torch.cuda.Stream()
    slot = Slot(p.numel(), "cuda")
    {wait}
    with torch.cuda.stream(h2d):
        slot.p.copy_(p.pin_memory(), non_blocking=True)
        slot.g.copy_(g.pin_memory(), non_blocking=True)
        slot.m.copy_(m.pin_memory(), non_blocking=True)
    torch.cuda.current_stream().wait_stream(h2d)
    return x + slot.p + slot.g + slot.m
"""


def told(root: Path, text: str, wait: str = "") -> tuple[Finding, ...]:
    file = root / "run.py"
    file.write_text(textwrap.dedent(text).format(wait=wait or "pass"))
    found = engine.analyze(root, [file], engine.Settings()).findings
    return leading([one for one in found if one.confidence is not Confidence.POSSIBLE])


@pytest.mark.parametrize(
    ("text", "others", "wait"),
    [
        (CALLERS, 2, "side.wait_stream(torch.cuda.current_stream())"),
        (SLOTS, 2, "h2d.wait_stream(torch.cuda.current_stream())"),
    ],
    ids=["three writers", "three slots"],
)
def test_what_one_wait_orders_is_told_once(tmp_path: Path, text: str, others: int, wait: str) -> None:
    (one,) = told(tmp_path, text)
    assert len(one.also) == others
    assert one.message.endswith(f"(and {others} more accesses)")
    assert all(SAME_EDGE in place.message for place in one.also)
    assert len(as_json.fields(one)["also"]) == others  # type: ignore[arg-type]
    assert told(tmp_path, text, wait) == ()


DROPPED = """
import torch

def sampled(logits, copies):
    ids = logits.argmax(-1)
    top = logits.softmax(-1)
    copies.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(copies):
        ids_host = ids.to("cpu", non_blocking=True)
        top_host = top.to("cpu", non_blocking=True)
    {wait}
    return ids_host, top_host

def run(n):
    copies = torch.cuda.Stream()
    kept = []
    for _ in range(n):
        kept.append(sampled(torch.ones(n, n, device="cuda"), copies))
    torch.cuda.synchronize()
    return kept
"""
SENT = """
import cupy as cp
from mpi4py import MPI

def exchange(n):
    comm = MPI.COMM_WORLD
    left, right = cp.ones(n), cp.ones(n)
    {wait}
    requests = [comm.Isend(left, dest=0), comm.Isend(right, dest=1)]
    MPI.Request.Waitall(requests)
"""


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        (DROPPED, "torch.cuda.current_stream().wait_stream(copies)"),
        (SENT, "cp.cuda.get_current_stream().synchronize()"),
    ],
    ids=["two tensors of one return", "two messages"],
)
def test_one_wait_for_two_uses_is_told_once(tmp_path: Path, text: str, wait: str) -> None:
    (one,) = told(tmp_path, text)
    assert one.message.endswith("(and 1 more access)")
    assert told(tmp_path, text, wait) == ()


def test_a_comment_at_one_use_leaves_the_other(tmp_path: Path) -> None:
    text = DROPPED.format(wait="pass")
    file = tmp_path / "run.py"

    def shown(text: str) -> list[int]:
        file.write_text(text)
        outcome = check_paths([str(tmp_path)], ignore=["SL002"])
        return [one.primary.line for one in outcome.findings]

    first, second = (text.splitlines().index(line) + 1 for line in text.splitlines() if ".to(" in line)
    ignored = "  # streamlint: ignore[SL401] reason"
    both = text.replace("non_blocking=True)", f"non_blocking=True){ignored}")
    only = text.replace("non_blocking=True)", f"non_blocking=True){ignored}", 1)
    assert shown(text) == [first]
    assert shown(only) == [second]
    assert shown(both) == []


TWO = (
    CALLERS
    + """
def shifted(x):
    with torch.cuda.stream(side):
        y = x - 1
    torch.cuda.current_stream().wait_stream(side)
    return y

def ready(n):
    return shifted(torch.zeros(n, device="cuda"))
"""
)
LANES = """
import torch

first, second = torch.cuda.Stream(), torch.cuda.Stream()

def total(x, y):
    {wait}
    return x.sum() + y.sum()

def of_first(n):
    with torch.cuda.stream(first):
        x = torch.zeros(n, device="cuda")
    return total(x, torch.zeros(n, device="cuda"))

def of_second(n):
    with torch.cuda.stream(second):
        x = torch.zeros(n, device="cuda")
    return total(x, torch.zeros(n, device="cuda"))
"""
RECORDS = """
import torch

side = torch.cuda.Stream()
done = torch.cuda.Event()

def total(x):
    side.wait_event(done)
    with torch.cuda.stream(side):
        y = x.sum()
    torch.cuda.current_stream().wait_stream(side)
    return y

def filled(n):
    x = torch.empty(n, device="cuda")
    {wait}
    x.fill_(3.0)
    return total(x)

def scaled(n):
    x = torch.ones(n, device="cuda")
    done.record()
    x *= 3
    return total(x)
"""


@pytest.mark.parametrize(
    ("text", "first", "mended", "left"),
    [
        (TWO, "pass", "side.wait_stream(torch.cuda.current_stream())", "x - 1"),
        (LANES, "pass", "torch.cuda.current_stream().wait_stream(first)", "x.sum()"),
        (RECORDS, "done.record()", "x.fill_(2.0); done.record(); return total(x)", "x.sum()"),
    ],
    ids=["two forks", "two streams", "two records"],
)
def test_two_missing_edges_are_told_both(
    tmp_path: Path, text: str, first: str, mended: str, left: str
) -> None:
    assert len(told(tmp_path, text, first)) == 2
    (one,) = told(tmp_path, text, mended)
    assert left in (tmp_path / "run.py").read_text().splitlines()[one.primary.line - 1]


def test_a_suppressed_finding_hides_no_other_edge(tmp_path: Path) -> None:
    one, other = told(tmp_path, TWO)
    assert leading([other]) == (other,)
    assert {one.edge, other.edge}.isdisjoint({""})
    assert one.edge != other.edge


FILLED = """
import torch

def run():
    side = torch.cuda.Stream()
    a, b = torch.ones(8, device="cuda"), torch.ones(8, device="cuda")
    with torch.cuda.stream(side):
        first = a.sum()
    torch.cuda.current_stream().wait_stream(side)
    b = b + 1
    with torch.cuda.stream(side):
        second = b.sum()
    torch.cuda.synchronize()
    return first, second
"""


def test_what_one_line_at_one_place_mends_in_a_function_is_told_once(tmp_path: Path) -> None:
    """A wait at the end of a method that fills buffers, before another launches graphs that read them."""
    one, other = told(tmp_path, FILLED)
    assert one.fixes[0].edits != other.fixes[0].edits
    alike = replace(other, fixes=one.fixes)
    assert leading(mended_alike((one, other))) == (one, other)
    for elsewhere in (replace(alike, function="other"), replace(alike, code="SL401")):
        assert len(leading(mended_alike((one, elsewhere)))) == 2
    shown = leading(mended_alike((one, alike)))
    assert [(each.primary, [place.span for place in each.also]) for each in shown] == [
        (one.primary, [other.primary])
    ]
