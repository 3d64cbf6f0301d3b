"""From what the runs of one program returned to a verdict. Pure: no GPU, no files, no clock."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from typing_extensions import assert_never

from streamlint.confirm.gpu.driver import NOT_READY
from streamlint.confirm.terms import GONE, RESULT, Cause, CudaError
from streamlint.frozen import frozen, replace
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.confirm.inside.order import Conflict
    from streamlint.confirm.inside.values import Snapshot


_LONGEST_KERNEL: Final = 60


class Verdict(Enum):
    """What a GPU showed about one pair of operations. Only ``CONFIRMED`` proves anything."""

    CONFIRMED = "confirmed"
    """A wrong value, an error, a deadlock or a wait was witnessed."""
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


SAYS_MOST = (
    Verdict.CONFIRMED,
    Verdict.UNORDERED,
    Verdict.ORDERED,
    Verdict.NOISY,
    Verdict.NOT_REACHED,
    Verdict.NOT_RUN,
)
"""Of several runs about one finding, the first of these stands for it."""


@frozen()
class Returned:
    """The program ended by itself. ``held`` counts how often the earlier operation was held back."""

    value: Snapshot
    held: int = 0
    overtaken: bool = False
    errors: tuple[CudaError, ...] = ()
    watched: int = 0
    """How often the later statement ran."""
    waited_s: float = 0.0
    """The longest time that the host spent in the later statement."""
    others: tuple[str, ...] = ()
    """Values of ``Hold`` that would be other schedules."""
    outlasted: bool = False
    """Whether the host waited in the earlier statement until nothing was held back any more."""
    opened_by: str = ""
    """The driver call that waited for a gate until it was opened."""
    expired: bool = False
    """Whether nothing was held back any more when a later statement began."""
    threads: bool = False
    """Whether threads beside the main one ran statements of the file."""


@frozen()
class Raised:
    """The function raised, or left an error that the final synchronization reported."""

    error: str
    errors: tuple[CudaError, ...] = ()
    threads: bool = False


@frozen()
class Failed:
    """The program could not be run to its end: a missing library, a crash, a timeout."""

    reason: str
    cause: Cause = Cause.UNABLE


Outcome: TypeAlias = Returned | Raised | Failed


@frozen()
class Difference:
    """The first place of the returned value that is wrong, with both values as text."""

    place: str
    reference: str
    gated: str


@frozen()
class Decision:
    verdict: Verdict
    reason: str
    difference: Difference | None = None
    by: str = ""
    """What a race was shown by: ``value`` or ``order``."""


@frozen()
class Runs:
    """What the runs of one program gave; a run that the witness does not need is ``NOT_MADE``.

    ``reference`` is serialized, ``control`` serialized with the delays, ``gated`` has the delays
    alone, and ``plain`` is the program as it is. ``slow`` are serialized, with one of several threads of
    the host slow. Of a program that may hang, ``control`` has the
    delays, and leaves out the statement that is said to wait without end.
    """

    reference: Outcome
    control: Outcome
    gated: Outcome
    plain: Outcome
    slow: tuple[Outcome, ...] = ()


NOT_MADE = Failed("not run")


def decide(witness: Witness, runs: Runs, delay_s: float) -> Decision:
    """The verdict on a finding whose rule declares ``witness``; a gate holds for ``delay_s``."""
    match witness:
        case ByValue() | ByReuse(stale=False):
            return _by_value(runs)
        case ByReuse():
            decision = _by_value(runs)
            right = "the value was right although the memory was handed out again"
            return replace(decision, reason=right) if decision.verdict is Verdict.ORDERED else decision
        case ByError():
            return _by_error(witness, runs.plain)
        case ByLateError():
            return _by_late_error(witness, runs)
        case ByDeadlock():
            return _by_deadlock(runs.control, runs.gated)
        case ByTime():
            return _by_time(runs, delay_s)
        case NoWitness(reason=reason):
            return Decision(Verdict.NOT_RUN, f"nothing shows it: {reason}")
        case _:
            assert_never(witness)


def _by_value(runs: Runs) -> Decision:
    match runs.reference:
        case Failed():
            return Decision(Verdict.NOT_RUN, runs.reference.reason)
        case Raised():
            return Decision(Verdict.NOT_RUN, f"the serialized program raises {runs.reference.error}")
        case Returned():
            decision = _against(runs.reference, runs.control, runs.gated)
            return _unless_threads_race(decision, runs.reference, runs.slow)
        case _:
            assert_never(runs.reference)


def _unless_threads_race(decision: Decision, reference: Returned, slow: tuple[Outcome, ...]) -> Decision:
    """A value may depend on which thread of the host comes first, and what is held back decides that too.

    ``worker.put(page)``, and then ``len(worker.done)`` without asking whether the worker has begun.
    """
    if decision.verdict is not Verdict.CONFIRMED:
        return decision
    for outcome in slow:
        match outcome:
            case Failed():
                return Decision(Verdict.NOT_RUN, outcome.reason)
            case Raised():
                reason = f"the serialized program raises {outcome.error} when one of its threads is slow"
                return Decision(Verdict.NOISY, reason)
            case Returned():
                noise = first_difference(reference.value, outcome.value)
                if noise is not None:
                    reason = "the serialized program returns another value when one of its threads is slow"
                    return Decision(Verdict.NOISY, reason, noise)
            case _:
                assert_never(outcome)
    return decision


def _against(reference: Returned, control: Outcome, gated: Outcome) -> Decision:
    match control:
        case Failed():
            return Decision(Verdict.NOT_RUN, control.reason)
        case Raised():
            return Decision(Verdict.NOISY, f"the serialized program raises {control.error} when delayed")
        case Returned():
            unsettled = _unsettled(reference.value, control.value)
            reference, control = _without(unsettled, reference), _without(unsettled, control)
            gated = _without(unsettled, gated) if isinstance(gated, Returned) else gated
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


def _unsettled(reference: Snapshot, control: Snapshot) -> set[str]:
    """The results of calls that are others in two serialized runs, as times are."""
    return {
        expected[0]
        for expected, got in zip(reference, control, strict=False)
        if expected != got and RESULT in expected[0]
    }


def _without(places: set[str], outcome: Returned) -> Returned:
    return replace(outcome, value=tuple(leaf for leaf in outcome.value if leaf[0] not in places))


def _values(reference: Returned, gated: Returned) -> Decision:
    if gated.held == 0:
        return Decision(Verdict.NOT_REACHED, "the earlier operation was not issued")
    wrong = first_difference(reference.value, gated.value)
    if wrong is not None:
        return Decision(Verdict.CONFIRMED, "the returned value is wrong", wrong, "value")
    if gated.overtaken:
        return Decision(
            Verdict.UNORDERED,
            "the later operation finished while the earlier one was held back, but the value was right",
        )
    if gated.opened_by:
        return Decision(
            Verdict.ORDERED,
            f"the value was right; {gated.opened_by} waited for what was held back, "
            "before the later operation was done",
        )
    if gated.outlasted:
        # `x = load().add_(1)` waits by itself, and so may the first launch of a kernel.
        return Decision(
            Verdict.ORDERED,
            "the value was right, but the earlier statement itself waited for what was held back: "
            "work that it queued afterwards was not late",
        )
    return Decision(Verdict.ORDERED, "the value was right with the earlier operation held back")


def by_order(decision: Decision, conflict: Conflict | None) -> Decision:
    """The later operation was done before the earlier one: a race, if the order of the two matters.

    So it is if the values of the program differ in each run for other reasons, or happen to be right.
    """
    if conflict is None:
        return decision
    place = f"byte {conflict.offset} of memory that both use"
    first, second = _short(conflict.earlier), _short(conflict.later)
    reason = f"`{second}` was done while `{first}` was held back, and their order matters"
    return Decision(
        Verdict.CONFIRMED, reason, Difference(place, conflict.in_order, conflict.overtaken), "order"
    )


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_KERNEL else f"{name[:_LONGEST_KERNEL]}..."


def _by_error(witness: ByError, plain: Outcome) -> Decision:
    """A call that must fail fails whatever the schedule is, so one run as it is tells."""
    shown = _first_error(plain, lambda error: _is_asked_for(witness, error))
    if shown is not None:
        return Decision(Verdict.CONFIRMED, _failed_call(shown))
    match plain:
        case Failed(cause=Cause.CRASH) if witness.crash:
            return Decision(Verdict.CONFIRMED, plain.reason)
        case Failed():
            return Decision(Verdict.NOT_RUN, plain.reason)
        case Raised():
            return Decision(Verdict.NOT_RUN, f"the program raises {plain.error}")
        case Returned(watched=0):
            return Decision(Verdict.NOT_REACHED, "the place of the finding was not reached")
        case Returned():
            return Decision(Verdict.ORDERED, "no CUDA call failed")
        case _:
            assert_never(plain)


def _is_asked_for(witness: ByError, error: CudaError) -> bool:
    if witness.in_callback and not error.in_callback:
        return False
    return error.code in witness.codes if witness.codes else witness.in_callback and error.code != NOT_READY


def _by_late_error(witness: ByLateError, runs: Runs) -> Decision:
    shown = _first_error(runs.reference, lambda error: error.code in witness.codes)
    if shown is not None:
        return Decision(Verdict.CONFIRMED, f"{_failed_call(shown)}, even when serialized")
    shown = _first_error(runs.gated, lambda error: error.code in witness.codes)
    if shown is not None and not isinstance(runs.reference, Failed):
        return Decision(Verdict.CONFIRMED, f"{_failed_call(shown)}, with the earlier operation held back")
    return _by_value(runs)


def _by_deadlock(control: Outcome, gated: Outcome) -> Decision:
    match gated:
        case Failed(cause=Cause.TIMEOUT):
            return _unless_it_hangs_anyway(control, gated)
        case Failed():
            return Decision(Verdict.NOT_RUN, gated.reason)
        case Raised():
            return Decision(Verdict.NOT_RUN, f"the program raises {gated.error}")
        case Returned(held=0, watched=0):
            return Decision(Verdict.NOT_REACHED, "the place of the finding was not reached")
        case Returned():
            return Decision(Verdict.ORDERED, "the program ended")
        case _:
            assert_never(gated)


def _unless_it_hangs_anyway(control: Outcome, gated: Failed) -> Decision:
    match control:
        case Failed(cause=Cause.TIMEOUT | Cause.ELSEWHERE):
            return Decision(Verdict.NOISY, f"{gated.reason}; nor does it without the wait of the finding")
        case Failed():
            return Decision(Verdict.NOT_RUN, control.reason)
        case Raised() | Returned():
            return Decision(Verdict.CONFIRMED, f"{gated.reason}; without that wait it ends")
        case _:
            assert_never(control)


def _by_time(runs: Runs, delay_s: float) -> Decision:
    """The host waits in the later statement if it takes most of the delay, and takes less without."""
    for outcome in (runs.reference, runs.gated):
        match outcome:
            case Failed():
                return Decision(Verdict.NOT_RUN, outcome.reason)
            case Raised():
                return Decision(Verdict.NOT_RUN, f"the program raises {outcome.error}")
            case Returned():
                pass
            case _:
                assert_never(outcome)
    assert isinstance(runs.reference, Returned)
    assert isinstance(runs.gated, Returned)
    if runs.gated.held == 0 or runs.gated.watched == 0:
        return Decision(Verdict.NOT_REACHED, "the place of the finding was not reached")
    without, with_delay = runs.reference.waited_s, runs.gated.waited_s
    times = f"{with_delay * 1e3:.1f} ms, and {without * 1e3:.1f} ms without work to wait for"
    if with_delay - without > delay_s / 2:
        return Decision(Verdict.CONFIRMED, f"the host waited {times}; the work was held {delay_s * 1e3:g} ms")
    return Decision(Verdict.ORDERED, f"the host did not wait: {times}")


def _first_error(outcome: Outcome, wanted: Callable[[CudaError], bool]) -> CudaError | None:
    match outcome:
        case Returned(errors=errors) | Raised(errors=errors):
            return next((error for error in errors if wanted(error)), None)
        case Failed():
            return None
        case _:
            assert_never(outcome)


def _failed_call(error: CudaError) -> str:
    where = f"line {error.line}: " if error.line else ""
    what = "the call in the host callback" if error.in_callback else "a CUDA call"
    return f"{where}{what} failed with {error.name} ({error.code})"


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
    """The first leaf in which two returned values differ, or ``None`` if they are equal.

    One that has another value in the same place says more than one that is missing: in
    ``if flag.any() or other.any():`` what ``flag`` gave decides whether ``other`` is looked at.
    An array that only one run still had is missing for another reason.
    """
    unequal = _gone_in_one(reference, gated)
    reference, gated = (_without_arrays(unequal, leaves) for leaves in (reference, gated))
    there = _by_turn(gated)
    for (place, turn), expected in _by_turn(reference).items():
        got = there.get((place, turn), expected)
        if got != expected:
            return Difference(place, expected, got)
    for expected_leaf, leaf in zip(reference, gated, strict=False):
        if expected_leaf != leaf:
            return Difference(*expected_leaf, leaf[1])
    if len(reference) != len(gated):
        return Difference("size", str(len(reference)), str(len(gated)))
    return None


def _gone_in_one(reference: Snapshot, gated: Snapshot) -> tuple[str, ...]:
    """Arrays that were gone in one of two runs. In ``put[grid, a](x[:n], 7)`` one goes when garbage does."""
    return tuple({place for place, _ in _gone(reference) ^ _gone(gated)})


def _gone(leaves: Snapshot) -> set[tuple[str, int]]:
    """The names of arrays that were gone, and how much of that name comes before."""
    return {
        (name, sum(place.startswith(name) for place, _ in leaves[:number]))
        for number, (name, text) in enumerate(leaves)
        if text == GONE
    }


def _without_arrays(names: tuple[str, ...], leaves: Snapshot) -> Snapshot:
    return tuple(leaf for leaf in leaves if not leaf[0].startswith(names)) if names else leaves


def _by_turn(leaves: Snapshot) -> dict[tuple[str, int], str]:
    """By place, and how often it came before: two statements may have a ``value`` each."""
    turns: Counter[str] = Counter()
    found = {}
    for place, text in leaves:
        found[place, turns[place]] = text
        turns[place] += 1
    return found
