"""Every verdict from hand-written outcomes."""

from __future__ import annotations

import ctypes
import enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlint.confirm.values import SAMPLE, snapshot
from streamlint.confirm.verdict import (
    CudaError,
    Failed,
    Outcome,
    Raised,
    Returned,
    Verdict,
    decide,
    first_difference,
    suspicious,
)

RIGHT = Returned((("", "7.0"),), held=1)
WRONG = Returned((("", "0.0"),), held=1)
NOT_HELD = Returned((("", "7.0"),), held=0)
OVERTAKEN = Returned((("", "7.0"),), held=1, overtaken=True)
REFUSED = CudaError("cudaErrorNotPermitted", 800, 12)
IN_CALLBACK = Returned((("", "7.0"),), held=1, callback_errors=(REFUSED,))
RAISED = Raised("RuntimeError: CUDA error")
FAILED = Failed("the program was ended by SIGSEGV")


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
    for expects in (False, True):
        assert decide(reference, control, gated, expects_callback_error=expects).verdict is expected


@pytest.mark.parametrize("place", range(3))
def test_an_error_in_a_callback_is_evidence_where_it_is_the_finding(place: int) -> None:
    outcomes: list[Outcome] = [RIGHT, RIGHT, RIGHT]
    outcomes[place] = IN_CALLBACK
    decision = decide(outcomes[0], outcomes[1], outcomes[2], expects_callback_error=True)
    assert decision.verdict is Verdict.CONFIRMED
    assert "line 12" in decision.reason
    assert "cudaErrorNotPermitted (800)" in decision.reason
    # It says nothing about a race.
    other = decide(outcomes[0], outcomes[1], outcomes[2], expects_callback_error=False)
    assert other.verdict is Verdict.ORDERED


def test_an_error_in_a_callback_counts_even_if_the_program_then_fails() -> None:
    failing = Raised("RuntimeError: CUDA error: operation not permitted", (REFUSED,))
    assert decide(failing, failing, failing, expects_callback_error=True).verdict is Verdict.CONFIRMED


@given(st.sampled_from([RIGHT, WRONG, NOT_HELD, OVERTAKEN, RAISED, FAILED]), st.booleans())
def test_what_is_confirmed_was_suspicious(gated: Outcome, expects: bool) -> None:
    decision = decide(RIGHT, RIGHT, gated, expects_callback_error=expects)
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
