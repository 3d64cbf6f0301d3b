"""Which of the paths through an entry are run, and in which order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.api import check_source
from streamlint.frozen import replace
from streamlint.interp.entries import runs, starts
from streamlint.interp.state import symbols
from streamlint.interp.state.budgets import LIMITS
from streamlint.interp.state.decisions import Asked
from streamlint.interp.state.exploration import Exploration
from streamlint.run import engine
from streamlint.run.session import Session
from streamlint.source import Span
from streamlint.trace import StreamKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from streamlint.interp.state.decisions import Oracle


@dataclass
class Ran:
    """A path: what it answered, and what it did."""

    answers: dict[str, int] = field(default_factory=dict)
    did: tuple[object, ...] = ()
    busy: bool = False
    streams: int = 1


@dataclass
class Program:
    """Tests that a path decides one after the other; ``does`` says what it does by its answers."""

    tests: dict[str, bool]
    """By name: whether the text of their arms tells of streams."""
    does: Callable[[dict[str, int]], tuple[object, ...]]
    busy: Callable[[dict[str, int]], bool]
    relevant: bool = True
    streams: int = 1
    lines: dict[str, int] = field(default_factory=dict)
    """Where they stand; behind each arm the program goes on."""

    def asked(self, name: str) -> Asked | None:
        line = self.lines.get(name)
        return None if line is None else Asked(Span("m.py", line, 0, line, 9), joins=True)

    def run(self, oracle: Oracle) -> Ran:
        answers = {
            name: oracle.choose(
                symbols.Name(name), name, relevant=self.relevant, tells=tells, asked=self.asked(name)
            )
            for name, tells in self.tests.items()
        }
        return Ran(answers, self.does(answers), self.busy(answers), self.streams)

    def paths(
        self, limit: int = 12, quiet_limit: int = 4, run: Callable[[Oracle], Ran] | None = None
    ) -> list[Ran]:
        return [
            *Exploration(
                run or self.run,
                limit,
                quiet_limit,
                is_busy=lambda ran: ran.busy,
                is_promising=lambda ran: ran.streams > 1,
                is_whole=lambda _: True,
                reach=lambda ran: len(ran.did),
                outcome=lambda ran: ran.did,
            )
        ]


def same(_: dict[str, int]) -> tuple[object, ...]:
    return ()


def always(_: dict[str, int]) -> bool:
    return True


def never(_: dict[str, int]) -> bool:
    return False


def new(answers: dict[str, int]) -> tuple[object, ...]:
    return tuple(answers.items())


def test_a_quiet_path_is_not_run_again_for_arms_that_tell_of_no_stream() -> None:
    program = Program({"verbose": False, "debug": False}, new, busy=never)
    assert len(program.paths()) == 1


def test_it_is_where_there_is_a_second_stream_that_an_arm_may_give_work_to() -> None:
    program = Program({"is_contiguous": False}, new, busy=never, streams=2)
    assert len(program.paths()) == 2


def test_an_arm_that_tells_is_taken_as_long_as_nothing_is_busy() -> None:
    program = Program({"verbose": False, "aside": True}, new, busy=never)
    assert [ran.answers["aside"] for ran in program.paths()] == [0, 1]


def test_what_an_arm_brought_makes_the_other_tests_worth_a_path() -> None:
    program = Program({"verbose": False, "aside": True}, new, busy=lambda answers: answers["aside"] == 1)
    answers = [tuple(ran.answers.values()) for ran in program.paths()]
    assert answers[:2] == [(0, 0), (0, 1)]
    assert sorted(answers) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_what_a_path_that_showed_nothing_new_asked_again_is_not_combined() -> None:
    tests = dict.fromkeys(("a", "b", "c", "d", "e"), True)
    assert len(Program(tests, same, busy=always).paths()) == 1 + len(tests)
    assert len(Program(tests, new, busy=always).paths()) == 12


def test_tests_of_code_that_is_not_relevant_wait_until_something_is_busy() -> None:
    tests = dict.fromkeys(("a", "b", "c", "d", "e"), True)
    quiet = Program(tests, new, busy=never, relevant=False)
    assert len(quiet.paths()) == 1
    busy = Program(tests, new, busy=always, relevant=False)
    assert len(busy.paths()) == 1 + 4


def test_an_arm_is_one_whatever_is_asked_in_its_test() -> None:
    tests = dict.fromkeys(("first.sharded", "second.sharded", "mode"), True)
    lines = {"first.sharded": 1, "second.sharded": 1, "mode": 2}
    answers = [tuple(ran.answers.values()) for ran in Program(tests, new, busy=always, lines=lines).paths()]
    assert answers[:4] == [(0, 0, 0), (1, 0, 0), (0, 0, 1), (0, 1, 0)]


def test_the_last_path_takes_all_arms_that_are_left() -> None:
    lines = {name: line for line, name in enumerate("abcdef")}
    program = Program(dict.fromkeys("abcdef", True), new, busy=always, lines=lines)
    answers = [tuple(ran.answers.values()) for ran in program.paths(limit=4)]
    assert answers == [(0, 0, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 0, 1, 1, 1, 1)]


def elements(
    key: Callable[[symbols.Symbol], symbols.Symbol], *, tells: bool = False
) -> list[tuple[int, ...]]:
    """The answers of the first paths of a program that asks something of three elements."""
    found: list[tuple[int, ...]] = []

    def run(oracle: Oracle) -> Ran:
        asked = [key(symbols.Item(symbols.Name("pages"), symbols.constant(i))) for i in range(3)]
        found.append(tuple(oracle.choose(one, "some page", tells=tells) for one in asked))
        return Ran(did=(found[-1],), busy=True)

    program = Program({}, new, busy=always)
    assert len(program.paths(limit=3, run=run)) == 3
    return found


def test_a_path_with_some_of_both_comes_before_one_with_all_of_the_others() -> None:
    """``(hits if page in table else misses).append(page)``: the ones meet the others."""
    in_table = elements(lambda page: symbols.Compare("in", page, symbols.Name("table")))
    assert in_table == [(0, 0, 0), (0, 1, 1), (1, 1, 1)]


def test_of_one_kind_are_all_elements() -> None:
    tensor = symbols.Name("torch.Tensor")
    assert elements(lambda page: symbols.call("isinstance", page, tensor))[:2] == [(0, 0, 0), (1, 1, 1)]


def test_where_the_arms_work_with_streams_all_of_the_others_come_first() -> None:
    """``if page in table: side.wait_stream(current)``: a path without any wait shows what it orders."""
    asked = elements(lambda page: symbols.Compare("in", page, symbols.Name("table")), tells=True)
    assert asked == [(0, 0, 0), (1, 1, 1), (0, 1, 1)]


STEPS = """\
import torch


class Pool:
    def __init__(self):
        self.side = torch.cuda.Stream()

    def step(self, x):
        if self.is_small(x):
            return self._on(self.side, x)
        if self.is_wide(x):
            return self._on(self.side, x * 2)
        if self.is_deep(x):
            return self._on(self.side, x * 3)
        if self.is_odd(x):
            return self._aside(x)
        return x

    def _on(self, stream, x):
        with torch.cuda.stream(stream):
            return x * 2

    def _aside(self, x):
        with torch.cuda.stream(self.side):
            return x * 4
"""


def test_an_entry_of_many_steps_goes_on_until_it_has_come_by_what_it_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "LIMITS", replace(LIMITS, entry_steps=1))
    file = tmp_path / "pool.py"
    file.write_text(STEPS)
    session = Session(tmp_path, (file,), engine.Settings(), {})
    module = session.project.module("pool")
    assert module is not None
    first, *_ = starts.module_runs(session.project, module, StreamKind.LEGACY)
    assert first.entry.label == "Pool.step"
    assert {"pool:Pool._on", "pool:Pool._aside"} <= first.covered


BINDINGS = """\
import cupy as cp
from engines import load


class Page:
    def __init__(self, size):
        self.host = cp.cuda.alloc_pinned_memory(size)
        self.device = cp.zeros(size, dtype=cp.uint8)

    def upload(self, stream):
        self.device.data.copy_from_host_async(self.host.ptr, self.device.nbytes, stream)

    def download(self, stream):
        self.device.data.copy_to_host_async(self.host.ptr, self.device.nbytes, stream)


class Context:
    def __init__(self, path):
        self.path = path

    def open(self):
        self.engine = load(self.path)
        self.inputs, self.outputs, self.addresses = Context.pages(self.engine)
        self.stream = cp.cuda.Stream(non_blocking=True)
        assert len(self.inputs) == 1

    @staticmethod
    def pages(engine):
        inputs, outputs, addresses = [], [], []
        for binding in engine:
            page = Page(engine.size(binding))
            addresses.append(int(page.device.data.ptr))
            if engine.is_input(binding):
                inputs.append(page)
            else:
                outputs.append(page)
        return inputs, outputs, addresses

    def run(self, rows=None):
        stream = self.stream
        if rows is not None:
            self.inputs[0].upload(stream)
        for output in self.outputs:
            output.download(stream)
        stream.synchronize()
"""


def test_paths_that_an_assertion_stops_do_not_hide_one_that_mixes_the_arms_of_a_loop() -> None:
    found = check_source(BINDINGS).findings
    assert [(one.code, one.primary.line) for one in found] == [("SL102", 11)]
