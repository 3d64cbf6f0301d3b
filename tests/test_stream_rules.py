"""Rules about streams that were left out, and about memory that two libraries use."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from streamlint.judge import judge
from streamlint.rules import sl104_launch_off_stream as sl104
from streamlint.rules import sl601_handoff_without_stream as sl601
from streamlint.trace import (
    BufferId,
    Copy,
    HandOff,
    Launch,
    OpId,
    Site,
    Space,
    StreamChoice,
    StreamKind,
)
from tests.traces import Program, place

if TYPE_CHECKING:
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


def test_two_libraries_explain_a_missing_argument() -> None:
    """``kernel(..., stream=s)`` of CuPy, then ``cudaMemcpyAsync(..., None)``: SL601, not SL104."""
    p = Calls()
    side, default, x = p.stream(), p.stream(StreamKind.LEGACY), p.buffer()
    p.said(p.launch(side, writes=x), StreamChoice.NAMED, "CuPy")
    p.hand_off(x, "")
    p.said(p.launch(default, reads=x), StreamChoice.LEFT_OUT, "cuda-python")
    assert not p.problems(sl104.RULE)
    assert p.problems(sl601.RULE)
