"""From what the runs of one program returned to a verdict. Pure: no GPU, no files, no clock."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if sys.version_info >= (3, 11):
    from typing import assert_never
else:  # not typing_extensions: the program under test may run where only its own packages are
    from typing import NoReturn

    def assert_never(value: NoReturn) -> NoReturn:
        raise AssertionError(value)


if TYPE_CHECKING:
    from streamlint.confirm.values import Snapshot


class Verdict(Enum):
    """What a GPU showed about one pair of operations. Only ``CONFIRMED`` proves anything."""

    CONFIRMED = "confirmed"
    """A wrong value, or an error that the serialized program does not have, was witnessed."""
    UNORDERED = "unordered"
    """The later operation finished while the earlier one was held back, yet the value was right."""
    ORDERED = "ordered"
    """The value was right with the earlier operation held back; other schedules were not tried."""
    NOT_REACHED = "not reached"
    """The earlier operation was never issued."""
    NOISY = "noisy"
    """The program returns different values even when serialized."""
    NOT_RUN = "not run"
    """There is nothing to compare; the reason says why."""


@dataclass(frozen=True, slots=True)
class CudaError:
    """A CUDA call that failed inside a host callback; ``line`` is that of the call."""

    name: str
    code: int
    line: int


@dataclass(frozen=True, slots=True)
class Returned:
    """The function returned. ``held`` counts how often the earlier operation was held back."""

    value: Snapshot
    held: int = 0
    overtaken: bool = False
    callback_errors: tuple[CudaError, ...] = ()


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised, or left an error that the final synchronization reported."""

    error: str
    callback_errors: tuple[CudaError, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """The program could not be run to its end: a missing library, a crash, a timeout."""

    reason: str


Outcome: TypeAlias = Returned | Raised | Failed


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place of the returned value that is wrong, with both values as text."""

    place: str
    reference: str
    gated: str


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    reason: str
    difference: Difference | None = None


def decide(reference: Outcome, control: Outcome, gated: Outcome, *, expects_callback_error: bool) -> Decision:
    """Compare the three runs of one program.

    ``reference`` is serialized, ``control`` serialized with the same delays, and ``gated`` has the
    delays alone. ``expects_callback_error`` says that the finding under test is about CUDA calls in
    host callbacks: these fail whether or not anything is held back, so their error is the evidence.
    """
    if expects_callback_error:
        shown = _callback_error((gated, control, reference))
        if shown is not None:
            return Decision(
                Verdict.CONFIRMED,
                f"line {shown.line}: the call in the host callback failed with {shown.name} ({shown.code})",
            )
    match reference:
        case Failed():
            return Decision(Verdict.NOT_RUN, reference.reason)
        case Raised():
            return Decision(Verdict.NOT_RUN, f"the serialized program raises {reference.error}")
        case Returned():
            return _against(reference, control, gated)
        case _:
            assert_never(reference)


def _against(reference: Returned, control: Outcome, gated: Outcome) -> Decision:
    match control:
        case Failed():
            return Decision(Verdict.NOT_RUN, control.reason)
        case Raised():
            return Decision(Verdict.NOISY, f"the serialized program raises {control.error} when delayed")
        case Returned():
            noise = first_difference(reference.value, control.value)
            if noise is not None:
                return Decision(Verdict.NOISY, "two serialized runs returned different values", noise)
        case _:
            assert_never(control)
    match gated:
        case Failed():
            return Decision(Verdict.NOT_RUN, gated.reason)
        case Raised():
            return Decision(Verdict.CONFIRMED, f"raised {gated.error}, which the serialized program does not")
        case Returned():
            return _values(reference, gated)
        case _:
            assert_never(gated)


def _values(reference: Returned, gated: Returned) -> Decision:
    if gated.held == 0:
        return Decision(Verdict.NOT_REACHED, "the earlier operation was not issued")
    wrong = first_difference(reference.value, gated.value)
    if wrong is not None:
        return Decision(Verdict.CONFIRMED, "the returned value is wrong", wrong)
    if gated.overtaken:
        return Decision(
            Verdict.UNORDERED,
            "the later operation finished while the earlier one was held back, but the value was right",
        )
    return Decision(Verdict.ORDERED, "the value was right with the earlier operation held back")


def _callback_error(outcomes: tuple[Outcome, ...]) -> CudaError | None:
    for outcome in outcomes:
        match outcome:
            case Returned() | Raised():
                if outcome.callback_errors:
                    return outcome.callback_errors[0]
            case Failed():
                pass
            case _:
                assert_never(outcome)
    return None


def suspicious(reference: Outcome, gated: Outcome) -> bool:
    """Whether ``gated`` would prove something against ``reference``, if the control agrees."""
    match gated:
        case Raised():
            return True
        case Returned():
            return (
                isinstance(reference, Returned) and first_difference(reference.value, gated.value) is not None
            )
        case Failed():
            return False
        case _:
            assert_never(gated)


def first_difference(reference: Snapshot, gated: Snapshot) -> Difference | None:
    """The first leaf in which two returned values differ, or ``None`` if they are equal."""
    for expected, got in zip(reference, gated, strict=False):
        if expected != got:
            # ("[1]", "2.0") against ("[1]", "0.0"); where the shapes differ the places do, too.
            return Difference(expected[0], expected[1], got[1])
    if len(reference) != len(gated):
        return Difference("size", str(len(reference)), str(len(gated)))
    return None
