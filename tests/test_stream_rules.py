"""Rules about streams that were left out, and about memory that two libraries use."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence, leading
from streamlint.judging.judge import judge
from streamlint.rules import sl101_unordered_read as sl101
from streamlint.rules import sl104_launch_off_stream as sl104
from streamlint.rules import sl106_stream_of_other_device as sl106
from streamlint.rules import sl601_handoff_without_stream as sl601
from streamlint.run import engine
from streamlint.trace import (
    BufferId,
    Copy,
    Doubt,
    HandOff,
    Launch,
    Mode,
    OpId,
    Record,
    Site,
    Space,
    StreamChoice,
    StreamKind,
)
from tests.traces import Program, access, place

if TYPE_CHECKING:
    from pathlib import Path

    from streamlint.rules.base import Problem, Rule


class Calls(Program):
    """Programs whose operations say how their call chose the stream, and whose call it is."""

    def said(self, number: OpId, choice: StreamChoice, library: str = "CuPy") -> OpId:
        op = self.ops[number]
        assert isinstance(op, (Launch, Copy))
        self.ops[number] = replace(op, choice=choice, library=library)
        return number

    def hand_off(self, buffer: BufferId, taker: str, *, orders: bool = False) -> OpId:
        at = Site(place(len(self.ops) + 1))
        return self.add(HandOff(at, buffer=buffer, taker=taker, orders=orders))

    def problems(self, rule: Rule) -> list[Problem]:
        return list(rule.check(judge(self.trace())))


# ----------------------------------------------------------------------------- SL104


@pytest.mark.parametrize(
    ("missing", "other", "found"),
    [
        (StreamChoice.LEFT_OUT, StreamChoice.NAMED, True),
        (StreamChoice.LEFT_OUT, StreamChoice.IMPLIED, False),
        (StreamChoice.AS_DATA, StreamChoice.IMPLIED, True),
        (StreamChoice.AS_DATA, StreamChoice.NAMED, True),
        (StreamChoice.NAMED, StreamChoice.NAMED, False),
        (StreamChoice.IMPLIED, StreamChoice.NAMED, False),
    ],
)
@pytest.mark.parametrize("kind", [StreamKind.LEGACY, StreamKind.PER_THREAD, StreamKind.CURRENT])
def test_left_out_is_the_cause_where_the_other_side_names_its_stream(
    missing: StreamChoice, other: StreamChoice, found: bool, kind: StreamKind
) -> None:
    p = Calls()
    side, default, x = p.stream(), p.stream(kind), p.buffer()
    write = p.said(p.launch(side, writes=x), other)
    read = p.said(p.launch(default, reads=x), missing)
    problems = p.problems(sl104.RULE)
    assert [(problem.earlier, problem.later) for problem in problems] == ([(write, read)] if found else [])


def test_it_stands_at_the_call_that_lacks_its_stream() -> None:
    p = Calls()
    side, default, x = p.stream(), p.stream(StreamKind.LEGACY), p.buffer()
    write = p.said(p.launch(default, writes=x), StreamChoice.LEFT_OUT)
    read = p.said(p.launch(side, reads=x), StreamChoice.NAMED)
    (problem,) = p.problems(sl104.RULE)
    assert problem.primary == write
    assert problem.explains == {(write, read)}


@pytest.mark.parametrize("kind", [StreamKind.BLOCKING, StreamKind.NON_BLOCKING])
def test_blocking_streams_are_ordered_with_the_default_stream(kind: StreamKind) -> None:
    p = Calls()
    side, default, x = p.stream(kind), p.stream(StreamKind.LEGACY), p.buffer()
    p.said(p.launch(side, writes=x), StreamChoice.NAMED)
    p.said(p.launch(default, reads=x), StreamChoice.LEFT_OUT)
    assert bool(p.problems(sl104.RULE)) is (kind is StreamKind.NON_BLOCKING)


def test_a_stream_that_was_entered_is_no_default() -> None:
    """``with entered: y = x.get()`` has no stream argument and is on ``entered``."""
    p = Calls()
    side, entered, x = p.stream(), p.stream(), p.buffer()
    p.said(p.launch(side, writes=x), StreamChoice.NAMED)
    p.said(p.launch(entered, reads=x), StreamChoice.LEFT_OUT)
    assert not p.problems(sl104.RULE)


@pytest.mark.parametrize("waits", [True, False])
def test_the_host_waited_for_the_stream_that_was_left_out(waits: bool) -> None:
    p = Calls()
    side, default = p.stream(StreamKind.BLOCKING), p.stream(StreamKind.LEGACY)
    x = p.buffer(Space.MANAGED)
    p.said(p.launch(default, writes=x), StreamChoice.LEFT_OUT)
    if waits:
        p.sync_stream(side)
    p.host(reads=x)
    assert bool(p.problems(sl104.RULE)) is waits


# ----------------------------------------------------------------------------- SL601


@pytest.mark.parametrize(
    ("libraries", "taker", "orders", "found"),
    [
        (("PyTorch", "CuPy"), "CuPy", False, True),
        (("PyTorch", "CuPy"), "", False, True),
        (("CuPy", "PyTorch"), "CuPy", False, True),
        (("PyTorch", "CuPy"), "Numba", False, False),
        (("PyTorch", "PyTorch"), "CuPy", False, False),
        (("PyTorch", ""), "", False, False),
        (("PyTorch", "CuPy"), "CuPy", True, False),
    ],
)
def test_two_libraries_and_a_hand_off_without_order(
    libraries: tuple[str, str], taker: str, orders: bool, found: bool
) -> None:
    p = Calls()
    a, b, x = p.stream(), p.stream(), p.buffer()
    p.said(p.launch(a, writes=x), StreamChoice.IMPLIED, libraries[0])
    p.hand_off(x, taker, orders=orders)
    p.said(p.launch(b, reads=x), StreamChoice.IMPLIED, libraries[1])
    assert bool(p.problems(sl601.RULE)) is found


@pytest.mark.parametrize("between", [True, False])
def test_an_order_made_between_the_two_is_not_what_was_missing(between: bool) -> None:
    p = Calls()
    a, b, x = p.stream(), p.stream(), p.buffer()
    p.hand_off(x, "CuPy")
    if not between:
        p.hand_off(x, "CuPy", orders=True)
    p.said(p.launch(a, writes=x), StreamChoice.IMPLIED, "PyTorch")
    if between:
        p.hand_off(x, "CuPy", orders=True)
    p.said(p.launch(b, reads=x), StreamChoice.IMPLIED, "CuPy")
    assert bool(p.problems(sl601.RULE)) is not between


@pytest.mark.parametrize("libraries", [("PyTorch", "Numba"), ("PyTorch", "PyTorch")])
def test_the_default_streams_of_two_libraries_are_one(libraries: tuple[str, str]) -> None:
    p = Calls()
    current, default, x = p.stream(StreamKind.CURRENT), p.stream(StreamKind.LEGACY), p.buffer()
    p.said(p.launch(current, writes=x), StreamChoice.IMPLIED, libraries[0])
    p.hand_off(x, "Numba")
    p.said(p.launch(default, reads=x), StreamChoice.IMPLIED, libraries[1])
    assert not p.problems(sl601.RULE)


@pytest.mark.parametrize("choice", [StreamChoice.LEFT_OUT, StreamChoice.IMPLIED])
def test_unknown_work_on_the_current_stream_and_a_call_without_a_stream(choice: StreamChoice) -> None:
    p = Calls()
    current, default, x = p.stream(StreamKind.CURRENT), p.stream(StreamKind.LEGACY), p.buffer()
    p.said(p.launch(current, writes=x), StreamChoice.IMPLIED, "")
    p.said(p.launch(default, reads=x), choice, "Numba")
    assert bool(p.problems(sl101.RULE)) is (choice is StreamChoice.IMPLIED)


def test_two_libraries_explain_a_missing_argument() -> None:
    """``kernel(..., stream=s)`` of CuPy, then ``cudaMemcpyAsync(..., None)``: SL601, not SL104."""
    p = Calls()
    side, default, x = p.stream(), p.stream(StreamKind.LEGACY), p.buffer()
    p.said(p.launch(side, writes=x), StreamChoice.NAMED, "CuPy")
    p.hand_off(x, "")
    p.said(p.launch(default, reads=x), StreamChoice.LEFT_OUT, "cuda-python")
    assert not p.problems(sl104.RULE)
    assert p.problems(sl601.RULE)


# ----------------------------------------------------------------------------- SL106

DEVICES = [
    ("0", "1", frozenset()),
    ("2", "1", frozenset()),
    ("cur", "1", frozenset({Doubt.DEVICE})),
    ("1", "cur", frozenset({Doubt.DEVICE})),
    ("1", "1", None),
    ("cur", "cur", None),
    ("0", "cur", None),
    (None, "1", None),
    ("0", None, None),
]
"""The device of the stream or event, the other device, and the doubts; None where nothing is found."""


def on_devices(p: Calls, made_on: str | None, issued_on: str | None, kind: StreamKind) -> OpId:
    stream = p.stream(kind)
    p.streams[stream] = replace(p.streams[stream], made_on=made_on)
    launch = p.launch(stream)
    op = p.ops[launch]
    assert isinstance(op, Launch)
    p.ops[launch] = replace(op, issued_on=issued_on)
    return launch


@pytest.mark.parametrize(("made_on", "issued_on", "doubts"), DEVICES)
def test_a_kernel_needs_a_stream_of_the_current_device(
    made_on: str | None, issued_on: str | None, doubts: frozenset[Doubt] | None
) -> None:
    p = Calls()
    launch = on_devices(p, made_on, issued_on, StreamKind.BLOCKING)
    found = [(problem.later, problem.doubts) for problem in p.problems(sl106.RULE)]
    assert found == ([] if doubts is None else [(launch, doubts)])


def test_a_default_stream_is_that_of_the_current_device() -> None:
    p = Calls()
    on_devices(p, "0", "1", StreamKind.LEGACY)
    assert not p.problems(sl106.RULE)


@pytest.mark.parametrize(("made_on", "issued_on", "doubts"), DEVICES)
@pytest.mark.parametrize("named", [True, False])
def test_an_event_is_recorded_on_its_own_device(
    made_on: str | None, issued_on: str | None, doubts: frozenset[Doubt] | None, named: bool
) -> None:
    p = Calls()
    stream, event = p.stream(), p.event()
    span = place(1) if named else None
    p.events[event] = replace(p.events[event], made_on=made_on, span=span)
    record = p.record(stream, event)
    op = p.ops[record]
    assert isinstance(op, Record)
    p.ops[record] = replace(op, issued_on=issued_on)
    found = [(problem.later, problem.doubts) for problem in p.problems(sl106.RULE)]
    assert found == ([(record, doubts)] if named and doubts is not None else [])


def test_a_launch_that_fails_explains_its_races() -> None:
    p = Calls()
    other, x = p.stream(), p.buffer()
    write = p.launch(other, writes=x)
    launch = on_devices(p, "0", "1", StreamKind.BLOCKING)
    op = p.ops[launch]
    assert isinstance(op, Launch)
    p.ops[launch] = replace(op, accesses=(access(x, Mode.READ),))
    (problem,) = p.problems(sl106.RULE)
    assert problem.explains == {(write, launch)}


# ----------------------------------------------------------------------------- from source

NUMBA_PROGRAM = """
import numpy as np
from numba import cuda

@cuda.jit
def fill(x, value):
    x[cuda.grid(1)] = value

@cuda.jit
def double(x, y):
    y[cuda.grid(1)] = 2 * x[cuda.grid(1)]

def run(n):
    stream = cuda.stream()
    x, y = cuda.device_array(n), cuda.device_array(n)
    cuda.synchronize()
    fill[n // 256, 256](x, 7)
    double[n // 256, 256, stream](x, y)
    stream.synchronize()
    return y.copy_to_host(stream=stream)
"""


@pytest.mark.parametrize(("default", "codes"), [("legacy", []), ("per-thread", ["SL104"])])
def test_numba_streams_are_not_ordered_with_a_per_thread_default_stream(
    tmp_path: Path, default: str, codes: list[str]
) -> None:
    file = tmp_path / "program.py"
    file.write_text(NUMBA_PROGRAM, encoding="utf-8")
    report = engine.analyze(tmp_path, [file], engine.Settings(default_stream=default))
    found = [one for one in leading(report.findings) if one.confidence is not Confidence.POSSIBLE]
    assert [one.code for one in found] == codes
    assert all(
        "fill[n // 256, 256](x, 7)" in NUMBA_PROGRAM.splitlines()[one.primary.line - 1] for one in found
    )


DEVICE_PROGRAM = """
import cupy as cp

kernel = cp.RawKernel('extern "C" __global__ void k(float* x) { x[0] = 1; }', "k")

def run(n):
    streams = []
    for index in range(2):
        with cp.cuda.Device(index):
            streams.append(cp.cuda.Stream())
    for index in range(2):
        with cp.cuda.Device(index):
            kernel((1,), (1,), (cp.zeros(n),), stream=streams[CHOSEN])
"""


@pytest.mark.parametrize(("chosen", "found"), [("index", 0), ("1 - index", 1), ("0", 1)])
def test_one_stream_for_each_device(tmp_path: Path, chosen: str, found: int) -> None:
    file = tmp_path / "program.py"
    file.write_text(DEVICE_PROGRAM.replace("CHOSEN", chosen), encoding="utf-8")
    report = engine.analyze(tmp_path, [file], engine.Settings())
    assert sum(one.code == "SL106" for one in report.findings) == found


def test_a_launch_that_fails_is_no_race(tmp_path: Path) -> None:
    """A launch on a stream of another device fails; that it has no order to other work does not matter."""
    file = tmp_path / "program.py"
    file.write_text(DEVICE_PROGRAM.replace("CHOSEN", "0"), encoding="utf-8")
    report = engine.analyze(tmp_path, [file], engine.Settings())
    sure = {one.code for one in report.findings if one.confidence is not Confidence.POSSIBLE}
    assert sure == {"SL106"}
