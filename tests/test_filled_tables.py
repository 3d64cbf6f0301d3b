"""Tables that a loop of unknown length fills: another key has another element, made in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.run import engine
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

SHELVES = """\
import torch


class Shelves:
    def __init__(self, names):
        self.names = names
        self.pages, self.saved = {{}}, {{}}
        self.up, self.down = torch.cuda.Stream(), torch.cuda.Stream()
        block = torch.empty(4096, pin_memory=True)
        for number, name in enumerate(names):
            self.pages[name] = {page}

    def load(self, name):
        saved = self.saved.pop(name, None)
        if saved is not None:
            {wait}
        with torch.cuda.stream(self.up):
            row = self.pages[name].to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.up)
        return row * 2

    def save(self, name, row):
        self.down.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.down):
            self.pages[name].copy_(row, non_blocking=True)
            row.record_stream(self.down)
            self.saved[name] = self.down.record_event()

    def turn(self):
        for number, name in enumerate(self.names):
            row = self.load(name)
            self.save(name, row)
            other = self.load(self.names[number + {ahead}])
            self.save(self.names[number + {ahead}], other)
"""
PAGES = {
    "alone": "torch.empty(64, pin_memory=True)",
    "inside": "{'mean': torch.empty(64, pin_memory=True)}['mean']",
    "parts": "block[64 * number : 64 * number + 64]",
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
@pytest.mark.parametrize("ahead", [0, 1, 7])
@pytest.mark.parametrize("waits", [True, False])
def test_a_table_that_a_loop_filled(tmp_path: Path, page: str, ahead: int, waits: bool) -> None:
    wait = "self.up.wait_event(saved)" if waits else "pass"
    source = SHELVES.format(page=page, wait=wait, ahead=ahead)
    report = engine.analyze(tmp_path, written(tmp_path, {"run.py": source}), engine.Settings())
    found = [one for one in report.findings if one.code in {"SL101", "SL102"} and "down`" in one.message]
    sure = [one for one in found if one.confidence is not Confidence.POSSIBLE]
    assert bool(sure) is not waits


WALKED = """\
import torch


def walked(names, pages):
    up = torch.cuda.Stream()
    done, rows = {{}}, []
    for name, page in zip(names, pages):
        with torch.cuda.stream(up):
            rows.append(torch.ones(64, device="cuda") * 2)
            {recorded}
    {waited}
    for row in rows:
        row.record_stream(torch.cuda.current_stream())
    return [row + 1 for row in rows]
"""
RECORDED = [
    "done[name] = torch.cuda.Event(); done[name].record()",
    "done[name] = up.record_event()",
    "done[name] = (page, up.record_event())",
]
MARKED = """\
import torch


def marked(names, pages):
    up = torch.cuda.Stream()
    rows = {{}}
    for name, page in zip(names, pages):
        with torch.cuda.stream(up):
            rows[name] = torch.ones(64, device="cuda") * 2
    marks = {made}
    for name in rows:
        torch.cuda.current_stream().wait_event(marks[name])
        rows[name].record_stream(torch.cuda.current_stream())
    return [row + 1 for row in rows.values()]
"""
WAITED = [
    "for event in done.values(): torch.cuda.current_stream().wait_event(event)",
    "for _, event in done.items(): torch.cuda.current_stream().wait_event(event)",
    "for name in done: torch.cuda.current_stream().wait_event(done[name])",
    "[torch.cuda.current_stream().wait_event(event) for event in done.values()]",
    "for event in list(done.values()): event.synchronize()",
]


@pytest.mark.parametrize("recorded", RECORDED)
@pytest.mark.parametrize("waited", WAITED)
def test_a_walk_comes_by_what_a_loop_has_put_there(tmp_path: Path, recorded: str, waited: str) -> None:
    if "(page" in recorded:
        waited = waited.replace("(event)", "(event[1])").replace("event.sync", "event[1].sync")
        waited = waited.replace("done[name])", "done[name][1])")
    report = engine.analyze(
        tmp_path,
        written(tmp_path, {"run.py": WALKED.format(recorded=recorded, waited=waited)}),
        engine.Settings(),
    )
    assert not report.findings


@pytest.mark.parametrize("recorded", RECORDED)
def test_a_walk_that_waits_for_nothing(tmp_path: Path, recorded: str) -> None:
    text = WALKED.format(recorded=recorded, waited="for event in done.values(): print(event)")
    report = engine.analyze(tmp_path, written(tmp_path, {"run.py": text}), engine.Settings())
    assert {one.code for one in report.findings} == {"SL101"}


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("{name: up.record_event() for name in names}", set()),
        ("{name: torch.cuda.Event() for name in names}", {"SL103"}),
    ],
)
def test_another_event_of_a_table_is_recorded_where_the_one_is_that_stands_for_all(
    tmp_path: Path, made: str, found: set[str]
) -> None:
    report = engine.analyze(
        tmp_path, written(tmp_path, {"run.py": MARKED.format(made=made)}), engine.Settings()
    )
    assert {one.code for one in report.findings} == found


MOVED = """\
import torch


class Offloaded:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def run(self):
        state = self.optimizer.state
        for name, value in state.items():
            host = torch.empty(value.shape, pin_memory=True)
            host.copy_(value, non_blocking=True)
            state[name] = host
        {wait}
        return sum(float(state[name][0]) for name in state)
"""


@pytest.mark.parametrize(("wait", "lines"), [("pass", [12, 15]), ("torch.cuda.synchronize()", [])])
def test_a_loop_that_replaces_elements_comes_by_those_that_were_there(
    tmp_path: Path, wait: str, lines: list[int]
) -> None:
    """The value at the next name is none that the loop has put there; what comes behind it finds those.

    So does the next call, which copies from them.
    """
    files = written(tmp_path, {"moved.py": MOVED.format(wait=wait)})
    findings = engine.analyze(tmp_path, files, engine.Settings()).findings
    sure = [one for one in findings if one.confidence is not Confidence.POSSIBLE]
    assert sorted({one.primary.line for one in sure}) == lines
