"""Runs the plans of one function, each run in a process of its own with a time limit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import field
from itertools import groupby
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint.confirm.inside.hold import Hold
from streamlint.confirm.inside.probe import SLOW, Mode
from streamlint.confirm.run.server import Limits, Run, Seen, Server, serving, slow_imports
from streamlint.confirm.terms import Cause
from streamlint.confirm.verdict import (
    NOT_MADE,
    Decision,
    Failed,
    Outcome,
    Raised,
    Returned,
    Runs,
    Verdict,
    decide,
    suspicious,
)
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
    gpus_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from streamlint.confirm.plan.plans import Plan
    from streamlint.confirm.run.seen import Span
    from streamlint.confirm.text.instrument import Place

MAX_TURNS = 4
"""So many executions of one statement are held back one by one."""


@frozen()
class Confirmation:
    plan: Plan
    decision: Decision
    environment: dict[str, str] = field(default_factory=dict)
    measured: tuple[Span, ...] = ()
    """When the gate and both operations were under way, for a picture."""


def confirm_all(
    plans: Sequence[Plan],
    limits: Limits,
    jobs: int = 1,
    say: Callable[[str], None] | None = None,
    started: Server | None = None,
) -> list[Confirmation]:
    """Run plans of one root; up to ``jobs`` functions at the same time. ``say`` is told of each run.

    ``started`` is a server for them that was started before, one that imports what they need.
    """
    if not plans:
        return []
    preload = slow_imports({plan.path for plan in plans})
    chunks = _chunks(plans, jobs)

    def work(number: int) -> list[Confirmation]:
        ready = started if number == 0 else None
        with serving(plans[0].root, preload, limits) if ready is None else nullcontext(ready) as server:
            return _Session(server, limits, say).confirm(chunks[number])

    with ThreadPoolExecutor(len(chunks)) as pool:
        return [confirmation for done in pool.map(work, range(len(chunks))) for confirmation in done]


def _chunks(plans: Sequence[Plan], jobs: int) -> list[list[Plan]]:
    """At most ``jobs`` stretches of about the same length; those of one function stay together."""
    groups = [list(group) for _, group in groupby(plans, _function_of)]
    size = len(plans) / max(1, jobs)
    chunks: list[list[Plan]] = [[]]
    for group in groups:
        if len(chunks[-1]) >= size:
            chunks.append([])
        chunks[-1].extend(group)
    return chunks


def _function_of(plan: Plan) -> tuple[Path, str]:
    return plan.path, plan.function


def _finding_of(plan: Plan) -> tuple[Path, str, str]:
    return *_function_of(plan), plan.fingerprint


def _reference_of(plan: Plan) -> tuple[Path, str, Place | None]:
    """What plans that are compared with the same run have in common.

    Where memory is used after it was given back, the reference of a plan keeps that very memory.
    """
    stale = isinstance(plan.witness, ByReuse) and plan.witness.stale
    return plan.path, plan.function, plan.earlier if stale else None


def modes_for(witness: Witness) -> tuple[Mode, ...]:
    """The runs to make at first; a control with the delays of the plan follows if something shows."""
    match witness:
        case ByValue() | ByReuse() | ByLateError() | ByTime():
            return (Mode.REFERENCE, Mode.GATED)
        case ByError():
            return (Mode.PLAIN,)
        case ByDeadlock():
            return (Mode.GATED,)
        case NoWitness():
            return ()
        case _:
            assert_never(witness)


class _Session:
    """Runs plans with one server, the serialized runs of a function once."""

    def __init__(self, server: Server, limits: Limits, say: Callable[[str], None] | None) -> None:
        self._server = server
        self._limits = limits
        self._say = say

    def confirm(self, plans: Sequence[Plan]) -> list[Confirmation]:
        runs: list[Run] = []
        for _, group in groupby(plans, _function_of):
            own = list(group)
            made = [Run(plan, mode) for plan in own for mode in modes_for(plan.witness)]
            references = {_reference_of(run.plan): run for run in reversed(made) if run.mode.serialized}
            runs += references.values()
            runs += [run for run in made if not run.mode.serialized]
        seen = self._run(runs)
        self._make_sure(plans, seen)
        done = self._other_schedules([self._decide(plan, seen) for plan in plans], seen)
        return [self._once_more(one) if self._is_doubtful(one) else one for one in done]

    def _is_doubtful(self, confirmation: Confirmation) -> bool:
        """Of what no finding predicts, nothing may be claimed for what a shared process shows.

        A program that reads memory which it has not written finds zeros there in its first run, and in a
        later one what an earlier one has left.
        """
        plan = confirmation.plan
        is_nobodys = not plan.fingerprint and Mode.GATED in modes_for(plan.witness)
        return self._limits.shared and is_nobodys and confirmation.decision.verdict is Verdict.CONFIRMED

    def _once_more(self, confirmation: Confirmation) -> Confirmation:
        """All of its runs again, each in a process of its own."""
        plan = confirmation.plan
        seen: dict[Run, Seen] = {}
        wanted = [Run(plan, mode) for mode in modes_for(plan.witness)]
        for following in (self._controls, self._slow, None):
            seen |= {run: self._server.run([run], alone=True)[0] for run in wanted}
            wanted = [] if following is None else following([plan], seen)
        return self._decide(plan, seen)

    def _make_sure(self, plans: Sequence[Plan], seen: dict[Run, Seen]) -> None:
        """Add the runs that must agree before anything is claimed."""
        seen |= self._run(self._controls(plans, seen))
        seen |= self._run(self._slow(plans, seen))
        seen |= self._apart(plans, seen)

    def _slow(self, plans: Sequence[Plan], seen: dict[Run, Seen]) -> list[Run]:
        """With several threads of the host: the program alone, with one of them slow."""
        wanted = {}
        for plan in plans:
            gated = self._seen(plan, seen, Mode.GATED).outcome
            several = isinstance(gated, Returned | Raised) and gated.threads
            if several and Run(plan, Mode.CONTROL) in seen and self._seen(plan, seen, SLOW[0]) is _NOT_MADE:
                wanted[_reference_of(plan)] = plan
        return [Run(plan, mode) for plan in wanted.values() for mode in SLOW]

    def _apart(self, plans: Sequence[Plan], seen: dict[Run, Seen]) -> dict[Run, Seen]:
        """What raised where runs share a process, in processes of its own.

        An earlier run may have left something behind: memory that stays registered, a port, a file.
        """
        doubtful: list[Plan] = []
        for plan in plans if self._limits.shared else ():
            outcomes = {mode: self._seen(plan, seen, mode).outcome for mode in Mode}
            raised = isinstance(outcomes[Mode.CONTROL], Raised) or isinstance(outcomes[Mode.GATED], Raised)
            if raised and isinstance(outcomes[Mode.REFERENCE], Returned):
                doubtful.append(plan)
        runs = [Run(plan, mode) for plan in doubtful for mode in (Mode.CONTROL, Mode.GATED)]
        return {run: self._server.run([run], alone=True)[0] for run in runs}

    def _other_schedules(self, done: list[Confirmation], seen: dict[Run, Seen]) -> list[Confirmation]:
        """Hold back less, where holding back all of the statement showed nothing."""
        others: dict[int, list[Plan]] = {}
        shown = {_finding_of(c.plan) for c in done if c.decision.verdict is Verdict.CONFIRMED}
        for index, confirmation in enumerate(done):
            plan = confirmation.plan
            outcome = self._seen(plan, seen, Mode.GATED).outcome
            if plan.fingerprint and _finding_of(plan) in shown:
                continue  # by another statement, of several that may be the earlier one
            if confirmation.decision.verdict in (Verdict.ORDERED, Verdict.UNORDERED) and plan.turn is None:
                others[index] = list(_narrower(plan, outcome))
        plans = [plan for few in others.values() for plan in few]
        seen |= self._run([Run(plan, Mode.GATED) for plan in plans])
        self._make_sure(plans, seen)
        for index, few in others.items():
            for plan in few:
                single = self._decide(plan, seen)
                if single.decision.verdict is Verdict.CONFIRMED:
                    done[index] = single
                    break
            else:
                if self._limits.shared and done[index].plan.later is not None:
                    done[index] = self._alone(done[index], few, seen)
        return done

    def _alone(self, confirmation: Confirmation, few: list[Plan], seen: dict[Run, Seen]) -> Confirmation:
        """The same schedules in a process each: after many runs, streams share the queues of the hardware."""
        for plan in (confirmation.plan, *few):
            run = Run(plan, Mode.GATED)
            apart = {run: self._server.run([run], alone=True)[0]}
            wanted = self._controls([plan], seen | apart)
            apart |= {control: self._server.run([control], alone=True)[0] for control in wanted}
            single = self._decide(plan, seen | apart)
            if single.decision.verdict is Verdict.CONFIRMED:
                return single
        return confirmation

    def _run(self, runs: Sequence[Run]) -> dict[Run, Seen]:
        if self._limits.shared:
            return dict(zip(runs, self._server.run(runs), strict=True))
        seen: dict[Run, Seen] = {}
        broken: dict[tuple[Path, str], Seen] = {}
        for run in runs:
            key = _function_of(run.plan)
            if self._say is not None:
                self._say(f"{run.plan.path.name}::{run.plan.function} {run.plan.code} {run.mode.value} run")
            seen[run] = broken[key] if key in broken else self._server.run([run])[0]
            if isinstance(seen[run].outcome, Failed) and run.mode is Mode.REFERENCE:
                broken[key] = seen[run]
        return seen

    def _controls(self, plans: Sequence[Plan], seen: dict[Run, Seen]) -> list[Run]:
        """Before anything is claimed for a plan, its very delays must be shown to be harmless.

        That is, to the serialized program, or to the one that leaves out what may never end.
        """
        wanted = []
        for plan in plans:
            reference = self._seen(plan, seen, Mode.REFERENCE).outcome
            gated = self._seen(plan, seen, Mode.GATED).outcome
            match plan.witness:
                case ByDeadlock():
                    hangs = isinstance(gated, Failed) and gated.cause is Cause.TIMEOUT
                    wanted += [Run(plan, Mode.UNBLOCKED)] if hangs else []
                case ByValue() | ByReuse() | ByLateError():
                    wanted += [Run(plan, Mode.CONTROL)] if suspicious(reference, gated) else []
                case ByError() | ByTime() | NoWitness():
                    pass
                case _:
                    assert_never(plan.witness)
        return wanted

    def _seen(self, plan: Plan, seen: dict[Run, Seen], mode: Mode) -> Seen:
        """The plan's own run in this mode; what holds nothing back is shared by the plans of a function."""
        if mode not in (Mode.REFERENCE, *SLOW):
            return seen.get(Run(plan, mode), _NOT_MADE)
        same = (s for r, s in seen.items() if r.mode is mode and _reference_of(r.plan) == _reference_of(plan))
        return next(same, _NOT_MADE)

    def _decide(self, plan: Plan, seen: dict[Run, Seen]) -> Confirmation:
        by_mode = {mode: self._seen(plan, seen, mode) for mode in Mode}
        control = by_mode[Mode.UNBLOCKED if isinstance(plan.witness, ByDeadlock) else Mode.CONTROL]
        # Where nothing differs from the reference, there is no control to make.
        runs = Runs(
            by_mode[Mode.REFERENCE].outcome,
            by_mode[Mode.REFERENCE].outcome if control is _NOT_MADE else control.outcome,
            by_mode[Mode.GATED].outcome,
            by_mode[Mode.PLAIN].outcome,
            tuple(by_mode[mode].outcome for mode in SLOW if by_mode[mode] is not _NOT_MADE),
        )
        decision = decide(plan.witness, runs, self._limits.delay_ms / 1e3)
        environment = next((s.environment for s in by_mode.values() if s.environment), {})
        return Confirmation(plan, decision, environment)


_NOT_MADE = Seen(NOT_MADE, {})


def _turns(count: int) -> list[int]:
    """Some executions of a statement: those of the first passes of a loop, and that of the last one."""
    return [*range(min(count, MAX_TURNS)), *range(max(count - 1, MAX_TURNS), count)]


def _narrower(plan: Plan, outcome: Outcome) -> Iterator[Plan]:
    """Other schedules for a statement whose delay showed nothing.

    One execution at a time: in ``for s in streams: launch(s)`` with a wait for the first stream only,
    holding both back delays the reader too, and it comes late enough to be right by luck. For the same
    reason the stream of one library at a time. And the other devices, for what runs on one that is not
    current. And for longer, if the host was too slow.
    """
    if isinstance(outcome, Returned):
        if outcome.held > 1:
            for turn in _turns(outcome.held):
                yield replace(plan, turn=turn)
        if outcome.expired and not outcome.outlasted:
            yield replace(plan, longer=True)
        for other in outcome.others:
            yield replace(plan, hold=Hold(other))
    if gpus_of(plan.witness) > 1:
        yield replace(plan, hold=Hold.ELSEWHERE)
