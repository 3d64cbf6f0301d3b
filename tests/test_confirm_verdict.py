"""Every verdict from hand-written outcomes."""

from __future__ import annotations

import ctypes
import enum
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlint.confirm.inside.values import SAMPLE, snapshot
from streamlint.confirm.terms import GONE, Cause, CudaError
from streamlint.confirm.verdict import (
    NOT_MADE,
    Decision,
    Difference,
    Failed,
    Outcome,
    Raised,
    Returned,
    Runs,
    Verdict,
    decide,
    first_difference,
    suspicious,
)
from streamlint.witness import (
    ByDeadlock,
    ByError,
    ByLateError,
    ByReuse,
    ByTime,
    ByValue,
    NoWitness,
    Witness,
)

RIGHT = Returned((("", "7.0"),), held=1)
WRONG = Returned((("", "0.0"),), held=1)
NOT_HELD = Returned((("", "7.0"),), held=0)
OVERTAKEN = Returned((("", "7.0"),), held=1, overtaken=True)
REFUSED = CudaError("cudaErrorNotPermitted", 800, 12, in_callback=True)
IN_CALLBACK = Returned((("", "7.0"),), held=1, errors=(REFUSED,))
RAISED = Raised("RuntimeError: CUDA error")
FAILED = Failed("the program was ended by SIGSEGV")


VALUE = ByValue()
IN_A_CALLBACK = ByError(in_callback=True)
CAPTURE = ByError(frozenset({900, 901}))
TOO_EARLY = ByLateError(frozenset({600}))
OTHER = CudaError("cudaErrorInvalidValue", 1, 3)
REFUSED_IN_CAPTURE = CudaError("cudaErrorStreamCaptureUnsupported", 900, 7)
NOT_READY = CudaError("cudaErrorNotReady", 600, 9)
CRASHED = Failed("the program was ended by SIGSEGV", Cause.CRASH)
HANGING = Failed("the program did not end within 5 s; it waits at line 4", Cause.TIMEOUT)
ELSEWHERE = Failed("the program did not end within 5 s, because a probe waits", Cause.ELSEWHERE)
WATCHED = Returned((("", "7.0"),), watched=1)


def verdict_of(
    witness: Witness,
    *,
    reference: Outcome = NOT_MADE,
    control: Outcome = NOT_MADE,
    gated: Outcome = NOT_MADE,
    plain: Outcome = NOT_MADE,
) -> Decision:
    return decide(witness, Runs(reference, control, gated, plain), 0.2)


@pytest.mark.parametrize(
    ("reference", "control", "gated", "expected"),
    [
        (RIGHT, RIGHT, WRONG, Verdict.CONFIRMED),
        (RIGHT, RIGHT, RIGHT, Verdict.ORDERED),
        (RIGHT, RIGHT, OVERTAKEN, Verdict.UNORDERED),
        (RIGHT, RIGHT, NOT_HELD, Verdict.NOT_REACHED),
        (RIGHT, RIGHT, RAISED, Verdict.CONFIRMED),
        (RIGHT, RIGHT, FAILED, Verdict.NOT_RUN),
        (RIGHT, WRONG, WRONG, Verdict.NOISY),
        (RIGHT, WRONG, RIGHT, Verdict.NOISY),
        (RIGHT, RAISED, WRONG, Verdict.NOISY),
        (RIGHT, FAILED, WRONG, Verdict.NOT_RUN),
        (RAISED, RIGHT, WRONG, Verdict.NOT_RUN),
        (FAILED, RIGHT, WRONG, Verdict.NOT_RUN),
    ],
)
def test_verdict(reference: Outcome, control: Outcome, gated: Outcome, expected: Verdict) -> None:
    for witness in (VALUE, ByReuse(), TOO_EARLY):
        assert verdict_of(witness, reference=reference, control=control, gated=gated).verdict is expected


def test_an_error_in_a_callback_is_evidence_where_it_is_the_finding() -> None:
    decision = verdict_of(IN_A_CALLBACK, plain=IN_CALLBACK)
    assert decision.verdict is Verdict.CONFIRMED
    assert "line 12" in decision.reason
    assert "cudaErrorNotPermitted (800)" in decision.reason
    # It says nothing about a race.
    assert verdict_of(VALUE, reference=RIGHT, control=RIGHT, gated=IN_CALLBACK).verdict is Verdict.ORDERED


def test_an_error_in_a_callback_counts_even_if_the_program_then_fails() -> None:
    failing = Raised("RuntimeError: CUDA error: operation not permitted", (REFUSED,))
    assert verdict_of(IN_A_CALLBACK, plain=failing).verdict is Verdict.CONFIRMED


@pytest.mark.parametrize(
    ("witness", "plain", "expected"),
    [
        (IN_A_CALLBACK, replace(WATCHED, errors=(OTHER,)), Verdict.ORDERED),
        (IN_A_CALLBACK, replace(WATCHED, errors=(replace(NOT_READY, in_callback=True),)), Verdict.ORDERED),
        (CAPTURE, Raised("AssertionError", (OTHER, REFUSED_IN_CAPTURE)), Verdict.CONFIRMED),
        (CAPTURE, replace(WATCHED, errors=(REFUSED_IN_CAPTURE,)), Verdict.CONFIRMED),
        (CAPTURE, replace(WATCHED, errors=(OTHER,)), Verdict.ORDERED),
        (CAPTURE, Raised("ValueError", (OTHER,)), Verdict.NOT_RUN),
        (CAPTURE, WATCHED, Verdict.ORDERED),
        (CAPTURE, replace(WATCHED, watched=0), Verdict.NOT_REACHED),
        (CAPTURE, CRASHED, Verdict.NOT_RUN),
        (ByError(crash=True), CRASHED, Verdict.CONFIRMED),
        (ByError(crash=True), HANGING, Verdict.NOT_RUN),
        (ByError(crash=True), replace(WATCHED, errors=(OTHER,)), Verdict.ORDERED),
    ],
)
def test_errors_that_need_no_delay(witness: Witness, plain: Outcome, expected: Verdict) -> None:
    assert verdict_of(witness, plain=plain).verdict is expected


def test_an_error_that_comes_of_the_delay() -> None:
    early = Raised("RuntimeError: CUDA error: device not ready", (NOT_READY,))
    decision = verdict_of(TOO_EARLY, reference=RIGHT, control=RIGHT, gated=early)
    assert (decision.verdict, "line 9" in decision.reason) == (Verdict.CONFIRMED, True)
    # A program that asks whether an event is complete gets the same number, and no delay changes that.
    always = verdict_of(TOO_EARLY, reference=early)
    assert (always.verdict, "even when serialized" in always.reason) == (Verdict.CONFIRMED, True)


@pytest.mark.parametrize(
    ("gated", "without_the_wait", "expected"),
    [
        (HANGING, WATCHED, Verdict.CONFIRMED),
        (HANGING, RAISED, Verdict.CONFIRMED),
        (HANGING, HANGING, Verdict.NOISY),
        (HANGING, ELSEWHERE, Verdict.NOISY),
        (HANGING, CRASHED, Verdict.NOT_RUN),
        (ELSEWHERE, NOT_MADE, Verdict.NOT_RUN),
        (CRASHED, NOT_MADE, Verdict.NOT_RUN),
        (RAISED, NOT_MADE, Verdict.NOT_RUN),
        (WATCHED, NOT_MADE, Verdict.ORDERED),
        (replace(WATCHED, watched=0), NOT_MADE, Verdict.NOT_REACHED),
    ],
)
def test_deadlocks(gated: Outcome, without_the_wait: Outcome, expected: Verdict) -> None:
    assert verdict_of(ByDeadlock(), control=without_the_wait, gated=gated).verdict is expected


@pytest.mark.parametrize(
    ("without", "with_delay", "expected"),
    [
        (0.001, 0.2, Verdict.CONFIRMED),
        (0.001, 0.002, Verdict.ORDERED),
        # Slow by itself, delay or not.
        (1.0, 1.01, Verdict.ORDERED),
    ],
)
def test_time(without: float, with_delay: float, expected: Verdict) -> None:
    reference = replace(RIGHT, watched=1, waited_s=without)
    gated = replace(RIGHT, watched=1, waited_s=with_delay)
    assert verdict_of(ByTime(), reference=reference, gated=gated).verdict is expected
    not_reached = replace(gated, watched=0)
    assert verdict_of(ByTime(), reference=reference, gated=not_reached).verdict is Verdict.NOT_REACHED
    assert verdict_of(ByTime(), reference=FAILED, gated=gated).verdict is Verdict.NOT_RUN


def test_what_nothing_shows_is_not_run() -> None:
    decision = verdict_of(NoWitness("it is so"))
    assert (decision.verdict, decision.reason) == (Verdict.NOT_RUN, "nothing shows it: it is so")


@given(st.sampled_from([RIGHT, WRONG, NOT_HELD, OVERTAKEN, RAISED, FAILED]))
def test_what_is_confirmed_was_suspicious(gated: Outcome) -> None:
    decision = verdict_of(VALUE, reference=RIGHT, control=RIGHT, gated=gated)
    assert (decision.verdict is Verdict.CONFIRMED) <= suspicious(RIGHT, gated)


def test_the_first_difference_is_named() -> None:
    difference = first_difference(snapshot((1.0, [2.0, 3.0])), snapshot((1.0, [2.0, 4.0])))
    assert difference is not None
    assert (difference.place, difference.reference, difference.gated) == ("[1][1]", "3.0", "4.0")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (0.0, -0.0),
        (1, 1.0),
        ([1], [1, 2]),
        ({"a": 1}, {"b": 1}),
        (b"ab", b"ac"),
        ((ctypes.c_int * 2)(1, 2), (ctypes.c_int * 2)(1, 3)),
        (bytes(4 * SAMPLE), bytes(4 * SAMPLE - 1) + b"\1"),
    ],
)
def test_values_that_differ(left: object, right: object) -> None:
    assert first_difference(snapshot(left), snapshot(right)) is not None


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: float("nan"),
        lambda: [1, "a", None, {"x": (1.5, b"b")}],
        lambda: Color.RED,
        lambda: ctypes.c_int(4),
        # An object's address is another one in every process, so it must not count.
        object,
    ],
)
def test_values_that_are_equal(make: type[object]) -> None:
    assert first_difference(snapshot(make()), snapshot(make())) is None


def test_large_arrays_are_sampled_but_compared_whole() -> None:
    leaves = snapshot(bytes(100 * SAMPLE))
    assert len(leaves) < 3 * SAMPLE


def test_values_that_contain_themselves_end() -> None:
    value: list[object] = []
    value.append(value)
    assert snapshot(value)


def test_memory_that_was_handed_out_again_is_told_from_an_operation_held_back() -> None:
    for witness, words in ((ByReuse(stale=True), "handed out again"), (ByReuse(), "held back")):
        right = verdict_of(witness, reference=RIGHT, control=RIGHT, gated=RIGHT)
        assert (right.verdict, words in right.reason) == (Verdict.ORDERED, True)
        assert verdict_of(witness, reference=RIGHT, control=RIGHT, gated=WRONG).verdict is Verdict.CONFIRMED


def test_a_value_that_is_another_says_more_than_one_that_is_missing() -> None:
    reference = (("a", "1"), ("value", "False"))
    gated = (("a", "1"), ("b", "(1,) float32"), ("value", "True"))
    assert first_difference(reference, gated) == Difference("value", "False", "True")
    assert first_difference(reference, (*reference, ("b", "2"))) == Difference("size", "2", "3")
    assert first_difference((("a", "1"), ("a", "2")), (("a", "1"), ("a", "2"))) is None


def test_an_array_that_only_one_run_still_has_is_no_difference() -> None:
    """`put[grid, a](x[:2], 7)`, then `double[grid, b](x, y)`: the view is gone when garbage is looked for."""
    view = (("x[:2].shape", "(2,)"), ("x[:2][0]", "7"))
    rest = (("x.shape", "(4,)"), ("x[0]", "7"))
    gone = (("x[:2]", GONE),)
    assert first_difference((*gone, *rest), (*view, *rest)) is None
    assert first_difference((*view, *rest), (*gone, *rest)) is None
    assert first_difference((*gone, *rest), (*gone, *rest)) is None
    stale = (*view, ("x.shape", "(4,)"), ("x[0]", "0"))
    assert first_difference((*gone, *rest), stale) == Difference("x[0]", "7", "0")
    # Of two arrays of one name each run has another one.
    value, other = ("value[0]", "7"), ("value[0]", "8")
    assert first_difference((("value", GONE), value), (other, ("value", GONE))) is None
    assert first_difference((("value", GONE), value), (("value", GONE), other)) is not None
