"""A finding is as sure as the facts that it needs: what is memory, and where it lives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.judging import evidence
from streamlint.judging.judge import judge
from streamlint.rules import sl101_unordered_read, sl201_host_read_before_sync
from streamlint.run import engine
from streamlint.trace import BufferId, Evidence, Space
from tests.test_tree import written
from tests.traces import Program

if TYPE_CHECKING:
    from pathlib import Path

    from streamlint.rules.base import Judged, Rule


def known(judged: Judged, rule: Rule) -> Evidence:
    (problem,) = rule.check(judged)
    return evidence.evidence_of(judged, problem)


@pytest.mark.parametrize("kind", Evidence)
def test_order_needs_memory_wherever_it_is(kind: Evidence) -> None:
    p = Program()
    a, b, x = p.stream(), p.stream(), p.buffer()
    p.launch(a, writes=x)
    p.launch(b, reads=x)
    trace = p.trace()
    trace.buffers[x] = replace(trace.buffers[x], kind=kind, residence=Evidence.ASSUMED)
    assert known(judge(trace), sl101_unordered_read.RULE) is kind


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("residence", Evidence)
def test_the_host_needs_both_ends_of_a_copy(end: int, residence: Evidence) -> None:
    p = Program()
    s, x, y = p.stream(), p.buffer(), p.buffer(space=Space.PINNED)
    p.copy(s, x, y)
    p.host(reads=y)
    trace = p.trace()
    at: BufferId = (x, y)[end]
    trace.buffers[at] = replace(trace.buffers[at], residence=residence)
    assert known(judge(trace), sl201_host_read_before_sync.RULE) is residence


ASIDE = """\
import torch
{module}

class Scaled:
    def __init__(self):
        self.side = torch.cuda.Stream()

    def run(self, {parameter}):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            torch.cuda._sleep(10)
            y = x * 2
        {use}
        return y + 1
"""


def confidence(root: Path, parameter: str, use: str = "pass", module: str = "") -> Confidence | None:
    files = written(root, {"run.py": ASIDE.format(parameter=parameter, use=use, module=module)})
    report = engine.analyze(root, files, engine.Settings())
    ranks = [one.confidence for one in report.findings if one.code == "SL101"]
    return max(ranks, key=lambda c: c.rank, default=None)


@pytest.mark.parametrize(
    ("parameter", "use", "module", "expected"),
    [
        ("x", "pass", "", None),
        ("x: torch.Tensor", "pass", "", Confidence.CERTAIN),
        ("x", "assert isinstance(x, torch.Tensor)", "", Confidence.CERTAIN),
        ("x", "x.record_stream(self.side)", "", Confidence.LIKELY),
        ("x", "pass", "def main():\n    Scaled().run(torch.ones(8, device='cuda'))", Confidence.CERTAIN),
        ("x", "pass", "def main(scaled):\n    scaled.run(torch.ones(8, device='cuda'))", Confidence.LIKELY),
        ("x", "pass", "def main(scaled):\n    scaled.run(3)", None),
        ("x: int", "pass", "", None),
        ("x", "range(x)", "", None),
    ],
)
def test_what_shows_a_tensor(
    tmp_path: Path, parameter: str, use: str, module: str, expected: Confidence | None
) -> None:
    found = confidence(tmp_path, parameter, use, module)
    assert found is expected or (expected is None and found is Confidence.POSSIBLE)


FILLED = """\
import torch

def blend(frame{annotation}):
    canvas = torch.zeros(64, device="cuda")
    lane = torch.cuda.Stream()
    lane.wait_stream(torch.cuda.current_stream())
    {shown}
    with torch.cuda.stream(lane):
        canvas.copy_(frame)
    {used}
    return canvas.mean()
"""


@pytest.mark.parametrize(
    ("shown", "used", "expected"),
    [
        ("assert frame.is_cuda", "pass", Confidence.CERTAIN),
        ("pass", "frame.record_stream(lane)", Confidence.LIKELY),
        ("pass", "pass", None),
    ],
)
def test_a_copy_that_may_block_needs_its_source_on_the_device(
    tmp_path: Path, shown: str, used: str, expected: Confidence | None
) -> None:
    source = FILLED.format(annotation=": torch.Tensor", shown=shown, used=used)
    report = engine.analyze(tmp_path, written(tmp_path, {"run.py": source}), engine.Settings())
    ranks = [one.confidence for one in report.findings if one.code == "SL101" and "canvas" in one.message]
    found = max(ranks, key=lambda c: c.rank, default=None)
    assert found is expected or (expected is None and found is Confidence.POSSIBLE)


FETCHED = """\
import numpy as np
from numba import cuda
{imported}

def total({parameter}):
    lane = cuda.stream()
    box = {box}
    rows = cuda.pinned_array(64, np.float32)
    box.copy_to_host(rows, stream=lane)
    return rows.sum()
"""


@pytest.mark.parametrize(
    ("imported", "parameter", "box", "expected"),
    [
        ("", "n", "cuda.device_array(n, np.float32)", Confidence.CERTAIN),
        ("", "given", "given", Confidence.LIKELY),
        ("from shelf import Box", "n", "Box.of(n, stream=lane)", Confidence.POSSIBLE),
        ("import shelf", "n", "shelf.Rack(lane).boxes[0]", Confidence.POSSIBLE),
        ("import shelf", "n", "shelf.take(cuda.to_device(n), lane)", Confidence.POSSIBLE),
    ],
)
def test_a_method_is_a_librarys_by_its_name_as_far_as_its_object_may_be(
    tmp_path: Path, imported: str, parameter: str, box: str, expected: Confidence
) -> None:
    source = FETCHED.format(imported=imported, parameter=parameter, box=box)
    report = engine.analyze(tmp_path, written(tmp_path, {"run.py": source}), engine.Settings())
    ranks = [one.confidence for one in report.findings if one.code == "SL201" and "`rows`" in one.message]
    assert max(ranks, key=lambda c: c.rank) is expected


GIVEN = """\
import torch
import vault

def poured(source: torch.Tensor):
    lane = torch.cuda.Stream()
    pool = {pool}
    with torch.cuda.stream(lane):
        pool.fill_(2)
    lane.synchronize()
    return pool
"""


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ("vault.like(source)", Confidence.LIKELY),
        ("torch.from_dlpack(vault.like(source))", Confidence.POSSIBLE),
        ("torch.utils.dlpack.from_dlpack(vault.like(source)).view(torch.uint8)", Confidence.POSSIBLE),
        ("torch.from_dlpack(source * 2)", Confidence.CERTAIN),
    ],
)
def test_who_gives_a_capsule_need_not_have_written_on_the_current_stream(
    tmp_path: Path, pool: str, expected: Confidence
) -> None:
    report = engine.analyze(
        tmp_path, written(tmp_path, {"run.py": GIVEN.format(pool=pool)}), engine.Settings()
    )
    ranks = [one.confidence for one in report.findings if one.code in {"SL101", "SL102"}]
    assert max(ranks, key=lambda c: c.rank) is expected


UNPACKED = """\
import torch
import vault

def unpacked(page: torch.Tensor):
    lane = torch.cuda.Stream()
    lane.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(lane):
        box = page * 2
        there = lane.record_event()
    parts = vault.{name}(box)
    {after}
    box.record_stream(torch.cuda.current_stream())
    return {result}
"""


@pytest.mark.parametrize(
    ("name", "after", "result", "expected"),
    [
        ("parts_of", "torch.cuda.current_stream().wait_event(there)", "parts", Confidence.POSSIBLE),
        ("network", "there.synchronize()", "parts", Confidence.POSSIBLE),
        ("network", "pass", "parts", Confidence.LIKELY),
        (
            "parts_of",
            "y = box + 1; torch.cuda.current_stream().wait_event(there)",
            "y",
            Confidence.CERTAIN,
        ),
        ("parts_of", "torch.cuda.Stream().wait_event(torch.cuda.Event())", "parts", Confidence.LIKELY),
    ],
)
def test_a_wait_behind_an_unresolved_call_tells_that_it_uses_nothing(
    tmp_path: Path, name: str, after: str, result: str, expected: Confidence
) -> None:
    source = UNPACKED.format(name=name, after=after, result=result)
    report = engine.analyze(tmp_path, written(tmp_path, {"run.py": source}), engine.Settings())
    ranks = [one.confidence for one in report.findings if one.code == "SL101"]
    assert max(ranks, key=lambda c: c.rank) is expected


SHIFTED = """\
import torch
import vault

def shifted(page: torch.Tensor, reader, n):
    lane = torch.cuda.Stream()
    lane.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(lane):
        box = page * 2
        {work}
    return vault.keep(box.data_ptr())
"""


@pytest.mark.parametrize(
    "work",
    [
        "vault.shift(box.data_ptr(), n)",
        "vault.shift(page.data_ptr(), box.data_ptr(), n)",
        "rows = reader.read(n); kept = [row.pin_memory() for row in rows]",
        "rows = vault.parts(n); kept = rows.pin_memory().to('cuda', non_blocking=True)",
    ],
)
def test_an_unresolved_call_tells_neither_its_stream_nor_that_host_memory_is_written_on_one(
    tmp_path: Path, work: str
) -> None:
    report = engine.analyze(
        tmp_path, written(tmp_path, {"run.py": SHIFTED.format(work=work)}), engine.Settings()
    )
    assert (report.analyzed, report.errors) == (1, ())
    called = [one for one in report.findings if "box" in one.message or "rows" in one.message]
    assert not [one for one in called if one.confidence is not Confidence.POSSIBLE]


MOVED = """\
import torch

def moved(jobs{annotation}):
    lane = torch.cuda.Stream()
    with torch.cuda.stream(lane):
        y = torch.ones(8, device="cuda")
        for job in jobs:
            transform({given})
    lane.synchronize()
    return y
{caller}
"""


@pytest.mark.parametrize(
    ("annotation", "given", "caller", "found"),
    [
        ("", "job", "", True),
        ("", "y, job", "", False),
        (": list[str]", "job", "", False),
        (": torch.Tensor", "y, job", "", True),
        ("", "y, job", "def main():\n    moved(torch.ones(8, 8, device='cuda'))", True),
    ],
)
def test_what_a_caller_may_have_left_needs_memory_that_something_shows(
    tmp_path: Path, annotation: str, given: str, caller: str, *, found: bool
) -> None:
    source = MOVED.format(annotation=annotation, given=given, caller=caller)
    report = engine.analyze(tmp_path, written(tmp_path, {"run.py": source}), engine.Settings())
    assert any("`job" in one.message for one in report.findings) is found


HANDED = """\
import torch

def moved(x{annotation}, lane=None):
    with torch.cuda.stream({lane}):
        return len(transform(x))
"""


@pytest.mark.parametrize(
    ("annotation", "lane", "found"),
    [
        (": torch.Tensor", "lane", True),  # its caller leaves work, and enters another stream
        ("", "lane", False),  # and passes a tensor
        ("", "torch.cuda.Stream()", True),
    ],
)
def test_three_assumptions_are_no_finding(tmp_path: Path, annotation: str, lane: str, *, found: bool) -> None:
    source = HANDED.format(annotation=annotation, lane=lane)
    report = engine.analyze(tmp_path, written(tmp_path, {"run.py": source}), engine.Settings())
    assert any("`x` is read" in one.message for one in report.findings) is found


LOOKED_AT = """\
import torch

class Looked:
    def __init__(self):
        self.lane = torch.cuda.Stream()

    def largest(self, lengths: torch.Tensor):
        with torch.cuda.stream(self.lane):
            self.y = torch.ones(8, device="cuda")
        return lengths.max().item()

    def run(self):
        return self.largest(torch.ones(4))
"""


def test_no_stream_writes_to_pageable_memory_behind_the_back_of_the_host(tmp_path: Path) -> None:
    report = engine.analyze(tmp_path, written(tmp_path, {"run.py": LOOKED_AT}), engine.Settings())
    assert (report.analyzed, report.errors) == (1, ())
    assert not [one for one in report.findings if one.code == "SL201"]


KEEPER = """\
import torch

class Keeper:
    def __init__(self, gate, page):
        self.gate, self.page = gate, page
        self.lane = torch.cuda.Stream()

    def push(self, kept):
        self.gate.synchronize()
        self.page.fill_(len(kept))
        with torch.cuda.stream(self.lane):
            kept.append(self.page.sum())
        self.gate.record(self.lane)

def main(names):
    gate, page = torch.cuda.Event(), {page}
    keepers = [Keeper(gate, page) for _ in names]
    return keepers
"""


@pytest.mark.parametrize(
    ("page", "expected"),
    [("torch.empty(64, pin_memory=True)", False), ("torch.empty(64, device='cuda')", True)],
)
def test_what_callers_pass_to_a_constructor_lives_where_they_put_it(
    tmp_path: Path, page: str, expected: bool
) -> None:
    report = engine.analyze(
        tmp_path, written(tmp_path, {"run.py": KEEPER.format(page=page)}), engine.Settings()
    )
    found = [one for one in report.findings if one.code == "SL101" and "page`" in one.message]
    assert any(one.confidence is not Confidence.POSSIBLE for one in found) is expected


CALLED = """\
import torch

def scaled(x, n):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        y = x * n
    torch.cuda.current_stream().wait_stream(side)
    return y
"""
CALLERS = {
    "by name": "from rings import scaled\nimport torch\ndef main(n):\n"
    "    return scaled(torch.ones(n, device='cuda'), n)\n",
    "by module": "import rings\nimport torch\ndef main(n):\n"
    "    return rings.scaled(torch.ones(n, device='cuda'), n)\n",
    "a number": "import rings\ndef main(n):\n    return rings.scaled(3, n)\n",
}


@pytest.mark.parametrize(
    ("callers", "sure"),
    [(["by name"], True), (["by module"], True), (["a number"], False), (["by name", "a number"], True)],
)
def test_what_callers_in_other_files_pass(tmp_path: Path, callers: list[str], *, sure: bool) -> None:
    """Whoever makes the tensor itself, and passes it in that very call, is seen whole."""
    texts = {f"main{i}.py": CALLERS[caller] for i, caller in enumerate(callers)}
    report = engine.analyze(tmp_path, written(tmp_path, {"rings.py": CALLED, **texts}), engine.Settings())
    found = [one for one in report.findings if one.primary.path == "rings.py" and "`x`" in one.message]
    assert any(one.confidence is not Confidence.POSSIBLE for one in found) is sure
