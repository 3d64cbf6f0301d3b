"""Confirms findings in a whole program: ``streamlint confirm TARGET -- python train.py --epochs 1``.

The program runs as it is, some times over, with the places of the findings woven into its modules.
All findings share the reference run, and the one that shows their delays to be harmless, where the program is
serialized. Those in which something may race they share as far as ``together`` can tell them apart.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from streamlint.confirm.inside.hold import Hold
from streamlint.confirm.inside.hook import JOB, SITECUSTOMIZE
from streamlint.confirm.inside.last_words import tail
from streamlint.confirm.inside.probe import Mode
from streamlint.confirm.inside.watch import MAX_TURNS
from streamlint.confirm.run.processes import end_all, tidy_environment
from streamlint.confirm.run.runner import Confirmation, modes_for
from streamlint.confirm.run.seen import Schedule, Seen, Span, read
from streamlint.confirm.run.together import Shown, Together
from streamlint.confirm.terms import Cause
from streamlint.confirm.text.weave import Role, Site
from streamlint.confirm.verdict import (
    NOT_MADE,
    SAYS_MOST,
    Decision,
    Failed,
    Runs,
    Verdict,
    by_order,
    decide,
    first_difference,
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
    gpus_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from streamlint.confirm.inside.turns import Execution
    from streamlint.confirm.plan.plans import Plan
    from streamlint.confirm.run.server import Limits

T = TypeVar("T")

_USUAL: Final = Schedule()


@frozen()
class Case:
    """A finding, and the places of the program to watch for it."""

    plan: Plan
    sites: tuple[Site, ...]


@frozen()
class Ask:
    """A run in which an execution is held back; and what it left."""

    mode: Mode
    turn: int
    schedule: Schedule
    alone: bool = False
    """Whether nothing else is to be held back in it, or was."""
    seen: Seen = field(default_factory=Seen)


Asking: TypeAlias = "Generator[Ask, Ask, T]"
"""Steps that ask for such runs on their way: those of several findings are made together."""


def _advanced(steps: Asking[T], answer: Ask | None) -> Ask | T:
    """What the steps ask for next, or what they come to."""
    try:
        return next(steps) if answer is None else steps.send(answer)
    except StopIteration as end:
        return cast("T", end.value)


class Program:
    """A command that can be run with probes."""

    def __init__(
        self, command: Sequence[str], cases: Sequence[Case], limits: Limits, *, measures: bool = False
    ) -> None:
        """``measures``: a further run of each finding that shows tells when the device did what."""
        self._command = list(command)
        self._cases = list(cases)
        self._limits = limits
        self._images: Path | None = None
        self._measures = measures
        self._measured: dict[int, tuple[Span, ...]] = {}

    def confirm(self, report: Callable[[str], None]) -> list[Confirmation]:
        """All findings in turn; ``report`` is told each verdict as it comes."""
        with tempfile.TemporaryDirectory(prefix="streamlint-images-") as images:
            self._images = Path(images)
            return self._confirm_all(report)

    def _confirm_all(self, report: Callable[[str], None]) -> list[Confirmation]:
        numbers = range(len(self._cases))
        shared = {mode for n in numbers for mode in self._modes(n) if mode in (Mode.REFERENCE, Mode.PLAIN)}
        common: dict[Mode, Seen] = {mode: self._run(mode) for mode in Mode if mode in shared}
        done: dict[int, Confirmation] = {}
        waiting = {number: self._confirm(number, common) for number in numbers}
        answers: dict[int, Ask] = {}
        while waiting:
            asked: dict[tuple[Mode, Schedule, int | None], list[Execution]] = {}
            for number, steps in list(waiting.items()):
                step = _advanced(steps, answers.get(number))
                if isinstance(step, Ask):
                    key = step.mode, step.schedule, number if step.alone else None
                    asked.setdefault(key, []).append((number, step.turn))
                else:
                    del waiting[number]
                    measured = self._measured.get(number, ())
                    done[number] = Confirmation(self._cases[number].plan, *step, measured)
                    report(self._told(done[number], len(done)))
            answers = {}
            for (mode, schedule, _), executions in asked.items():
                alone = len(executions) == 1
                for (number, turn), seen in self._made(mode, executions, schedule, common).items():
                    answers[number] = Ask(mode, turn, schedule, alone, seen)
        return [done[number] for number in numbers]

    def _made(
        self, mode: Mode, executions: list[Execution], schedule: Schedule, common: dict[Mode, Seen]
    ) -> dict[Execution, Seen]:
        """The run that tells of each of these executions."""
        if not mode.races or len(executions) == 1:
            return dict.fromkeys(executions, self._run(mode, executions, schedule))

        def run(held: Sequence[Execution], free: Sequence[Execution] = ()) -> Seen:
            return self._run(mode, held, schedule, free)

        return Together(run, partial(self._shows, common, schedule)).tell(executions)

    def _shows(self, common: dict[Mode, Seen], schedule: Schedule, execution: Execution, seen: Seen) -> Shown:
        """Whether what a run left of an execution is another than what the reference did."""
        runs = common[Mode.REFERENCE], seen
        expected, got = (one.outcome(*execution, self._limits.timeout_s, schedule.stop) for one in runs)
        if isinstance(got, Failed):
            return Shown.ENDING
        if first_difference(*(one.leaves((*execution, schedule.stop)) for one in runs)) is not None:
            return Shown.CONTENTS
        return Shown.ENDING if suspicious(expected, got) else Shown.NOTHING

    def _told(self, confirmation: Confirmation, count: int) -> str:
        plan = confirmation.plan
        place = f"{plan.path.name}:{plan.later.line}" if plan.later is not None else plan.path.name
        return f"{count}/{len(self._cases)} {plan.code} {place} {confirmation.decision.verdict.name}"

    def _is_about_deadlock(self, number: int) -> bool:
        return isinstance(self._cases[number].plan.witness, ByDeadlock)

    def _modes(self, number: int) -> tuple[Mode, ...]:
        return modes_for(self._cases[number].plan.witness)

    def _confirm(self, number: int, common: dict[Mode, Seen]) -> Asking[tuple[Decision, dict[str, str]]]:
        plan, limit = self._cases[number].plan, self._limits.timeout_s
        delay_s = self._limits.delay_ms / 1e3
        match plan.witness:
            case ByError():
                plain = common[Mode.PLAIN]
                runs = Runs(NOT_MADE, NOT_MADE, NOT_MADE, plain.outcome(number, 0, limit))
                return decide(plan.witness, runs, delay_s), plain.environment
            case ByDeadlock():
                gated = self._run(Mode.GATED, [(number, 0)])
                runs = Runs(NOT_MADE, NOT_MADE, gated.outcome(number, 0, limit), NOT_MADE)
                if isinstance(runs.gated, Failed) and runs.gated.cause is Cause.TIMEOUT:
                    control = self._run(Mode.UNBLOCKED, [(number, 0)])
                    runs = replace(runs, control=control.outcome(number, 0, limit))
                return decide(plan.witness, runs, delay_s), gated.environment
            case ByValue(names_earlier=False):
                reason = "it names no earlier operation; confirm a function that returns what it computes"
                return Decision(Verdict.NOT_RUN, reason), {}
            case _ if Mode.REFERENCE not in self._modes(number):
                return decide(plan.witness, Runs(NOT_MADE, NOT_MADE, NOT_MADE, NOT_MADE), delay_s), {}
            case _:
                reference = common[Mode.REFERENCE]
                return (yield from self._turns(number, reference)), reference.environment

    def _turns(self, number: int, reference: Seen) -> Asking[Decision]:
        """Hold back the first executions of the earlier operation, one in each run."""
        first = reference.outcome(number, 0, self._limits.timeout_s)
        reached = min(reference.reached.get(number, 0), MAX_TURNS)
        if isinstance(first, Failed):
            return Decision(Verdict.NOT_RUN, first.reason)
        if reached == 0:
            ended = f"; the program ended with status {reference.ended}{reference.last_line}"
            reason = "the earlier operation was not issued" + (ended if reference.ended else "")
            return Decision(Verdict.NOT_REACHED, reason)
        decisions = []
        several_gpus = gpus_of(self._cases[number].plan.witness) > 1
        for turn in range(reached):
            holds = (Hold.CURRENT, Hold.ELSEWHERE) if several_gpus else (Hold.CURRENT,)
            schedules = [Schedule(hold) for hold in holds]
            for schedule in schedules:  # which grow
                decision, others = yield from self._turn(number, turn, reference, schedule)
                if decision.verdict in (Verdict.CONFIRMED, Verdict.NOISY):
                    return decision
                decisions.append(decision)
                schedules += [other for other in others if other not in schedules]
        return min(decisions, key=lambda one: SAYS_MOST.index(one.verdict))

    def _turn(
        self, number: int, turn: int, reference: Seen, schedule: Schedule
    ) -> Asking[tuple[Decision, list[Schedule]]]:
        """What holding back one execution shows, and what else could be tried there."""
        plan, limit, stop = self._cases[number].plan, self._limits.timeout_s, schedule.stop
        expected = reference.outcome(number, turn, limit, stop)
        # Where memory is handed out again, where an exception is looked for, or a time, nothing else may be.
        shared = isinstance(plan.witness, ByValue)
        gated = (yield Ask(Mode.GATED, turn, schedule, alone=not shared)).seen
        got = gated.outcome(number, turn, limit, stop)
        looked = (number, turn, stop) in reference.parts, (number, turn, stop) in gated.parts
        if looked == (True, False) and (gated.ended, gated.broken) == (reference.ended, reference.broken):
            reason = "the later operation was not reached in the delayed run"
            return Decision(Verdict.NOT_REACHED, reason), []
        runs = Runs(expected, expected, got, NOT_MADE)
        if suspicious(expected, got) and not isinstance(plan.witness, ByTime):
            again = yield Ask(Mode.CONTROL, turn, schedule)
            runs = replace(runs, control=again.seen.outcome(number, turn, limit, stop))
            if not again.alone and (isinstance(runs.control, Failed) or suspicious(expected, runs.control)):
                # The delays of the other findings may have done it.
                again = yield Ask(Mode.CONTROL, turn, schedule, alone=True)
                runs = replace(runs, control=again.seen.outcome(number, turn, limit, stop))
        decision = decide(plan.witness, runs, self._limits.delay_ms / 1e3)
        if decision.verdict in (Verdict.UNORDERED, Verdict.NOISY) and (number, turn) in gated.overtaken:
            decision = by_order(
                decision,
                self._run(Mode.ORDER, [(number, turn)], schedule).conflicts.get((number, turn)),
            )
        if self._measures and decision.verdict in (Verdict.CONFIRMED, Verdict.UNORDERED):
            seen = self._run(Mode.GATED, [(number, turn)], schedule, measures=True)
            self._measured[number] = seen.measured.get((number, turn), ())
        return decision, gated.others(number, schedule)

    def _run(
        self,
        mode: Mode,
        held: Sequence[Execution] = (),
        schedule: Schedule = _USUAL,
        free: Sequence[Execution] = (),
        *,
        measures: bool = False,
    ) -> Seen:
        with tempfile.TemporaryDirectory(prefix="streamlint-confirm-") as name:
            folder = Path(name)
            out = folder / "out"
            out.mkdir()
            hooks = folder / "hooks"
            hooks.mkdir()
            (hooks / "sitecustomize.py").write_text(SITECUSTOMIZE, "utf-8")
            # Only this package: what else is installed beside it may not fit the program's interpreter.
            (hooks / "streamlint").symlink_to(Path(__file__).resolve().parents[2], target_is_directory=True)
            job = folder / "job.json"
            wanted = self._job(mode, held, out, schedule) | {"free": free, "measures": measures}
            job.write_text(json.dumps(wanted), "utf-8")
            environment = tidy_environment(hooks) | {JOB: str(job)}
            with _started(self._command, environment, folder) as process:
                ended = _wait(process, self._limits.timeout_s)
            seen = read(out)
            seen.ended = ended
            seen.last_line = tail(folder / "stderr")
            return seen

    def _job(self, mode: Mode, held: Sequence[Execution], out: Path, schedule: Schedule) -> dict[str, Any]:
        sites = [site for case in self._cases for site in case.sites]
        return {
            "mode": mode.value,
            "held": held,
            "hold": schedule.hold.value,
            "stop": schedule.stop.value,
            "delay_ms": self._limits.delay_ms,
            "out": str(out),
            "images": None if self._images is None else str(self._images),
            "records": [
                n for n, case in enumerate(self._cases) if isinstance(case.plan.witness, ByLateError)
            ],
            "stuck": [number for number, _ in held if self._is_about_deadlock(number)],
            "reuse": [n for n, case in enumerate(self._cases) if isinstance(case.plan.witness, ByReuse)],
            "sites": [
                {
                    "finding": site.finding,
                    "role": site.role.value,
                    "path": site.path,
                    "line": site.place.line,
                    "col": site.place.col,
                }
                for site in sites
            ],
        }


@contextmanager
def _started(
    command: Sequence[str], environment: dict[str, str], folder: Path
) -> Iterator[subprocess.Popen[bytes] | None]:
    """The program, and nothing of it left when the block is left, however that happens."""
    process = None
    # To files, not to pipes: a program may print much, print what is no text, or leave a pipe open.
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            err.write(f"{command[0]}: {error.strerror or error}".encode())
        try:
            yield process
        finally:
            if process is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            end_all(environment[JOB])


def _wait(process: subprocess.Popen[bytes] | None, timeout_s: float) -> int | None:
    if process is None:
        return 127
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None


def cases_of(plans: Sequence[Plan]) -> list[Case]:
    """Number the plans and list their sites."""
    return [Case(plan, tuple(_sites(number, plan))) for number, plan in enumerate(plans)]


def _sites(number: int, plan: Plan) -> Iterator[Site]:
    if plan.earlier is not None:
        path = plan.earlier_path or plan.path
        yield Site(number, Role.EARLIER, str(path), plan.earlier)
    if plan.later is not None:
        role = Role.STUCK if isinstance(plan.witness, ByDeadlock) else Role.LATER
        yield Site(number, role, str(plan.path), plan.later)
    if isinstance(plan.witness, ByError | ByLateError) and plan.later is not None:
        yield Site(number, Role.GUARD, str(plan.path), plan.later)
    for other, place in plan.related:
        yield Site(number, Role.GUARD, other, place)
