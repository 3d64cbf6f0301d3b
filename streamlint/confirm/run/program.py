"""Confirms findings in a whole program: ``streamlint confirm TARGET -- python train.py --epochs 1``.

The program runs as it is, some times over, with the places of the findings woven into its modules.
All findings share the reference run. The runs in which something may race are about one finding each; those
that show its delays to be harmless, where the program is serialized, are about all that need one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from streamlint.confirm.inside.hold import Hold
from streamlint.confirm.inside.hook import JOB, SITECUSTOMIZE
from streamlint.confirm.inside.last_words import tail
from streamlint.confirm.inside.order import Conflict
from streamlint.confirm.inside.probe import Mode
from streamlint.confirm.inside.turns import Stop
from streamlint.confirm.inside.watch import MAX_TURNS
from streamlint.confirm.run.processes import end_all, tidy_environment
from streamlint.confirm.run.runner import Confirmation, modes_for
from streamlint.confirm.text.weave import Role, Site
from streamlint.confirm.verdict import (
    NOT_MADE,
    SAYS_MOST,
    Cause,
    CudaError,
    Decision,
    Failed,
    Outcome,
    Returned,
    Runs,
    Verdict,
    by_order,
    decide,
    suspicious,
)
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
    from streamlint.confirm.inside.values import Snapshot
    from streamlint.confirm.plan.plans import Plan
    from streamlint.confirm.run.server import Limits

T = TypeVar("T")

_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Case:
    """A finding, and the places of the program to watch for it."""

    plan: Plan
    sites: tuple[Site, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """One of the ways to hold an operation back and to look at what comes of it."""

    hold: Hold = Hold.CURRENT
    stop: Stop = Stop.MATCHING


_Place: TypeAlias = "tuple[int, int, Stop]"
"""A finding, its turn, and where that ended."""


@dataclass(slots=True)
class Seen:
    """What one run of the program left."""

    ended: int | None = None
    """Exit status, negative for a signal; ``None`` if it was killed for its time."""
    last_line: str = ""
    started: bool = False
    reached: dict[int, int] = field(default_factory=dict)
    parts: dict[_Place, list[tuple[str, Snapshot]]] = field(default_factory=dict)
    """The contents at the end of a turn, by process."""
    held: set[int] = field(default_factory=set)
    holds: dict[int, set[Hold]] = field(default_factory=dict)
    """What else could be held back."""
    stops: dict[int, set[Stop]] = field(default_factory=dict)
    """Where else the turn could have ended."""
    watched: set[int] = field(default_factory=set)
    overtaken: set[tuple[int, int]] = field(default_factory=set)
    conflicts: dict[tuple[int, int], Conflict] = field(default_factory=dict)
    """Of operations whose order was seen to matter."""
    opened: dict[int, str] = field(default_factory=dict)
    """The calls that waited for a gate until it was opened."""
    gates: str = ""
    """Where they stood, in words."""
    outlasted: set[int] = field(default_factory=set)
    waited: dict[tuple[int, int], float] = field(default_factory=dict)
    errors: dict[int, list[CudaError]] = field(default_factory=dict)
    inside: dict[int, int] = field(default_factory=dict)
    """How many threads went into a place and did not come out."""
    driver_error: str = ""
    broken: str = ""
    """The error that the device was left with."""
    environment: dict[str, str] = field(default_factory=dict)

    def leaves(self, place: _Place) -> Snapshot:
        parts = sorted(self.parts.get(place, ()), key=lambda part: part[0])
        return tuple(leaf for _, leaves in parts for leaf in leaves)

    def others(self, finding: int, schedule: Schedule) -> list[Schedule]:
        """What else could be tried, if this schedule shows nothing."""
        holds = [replace(schedule, hold=hold) for hold in Hold if hold in self.holds.get(finding, ())]
        stops = [replace(schedule, stop=stop) for stop in Stop if stop in self.stops.get(finding, ())]
        return [*holds, *stops]

    def outcome(self, finding: int, turn: int, timeout_s: float, stop: Stop = Stop.MATCHING) -> Outcome:
        """The run as the verdict on one finding sees it."""
        if self.ended is None:
            reason = f"the program did not end within {timeout_s:g} s"
            if self.inside.get(finding, 0) > 0:
                return Failed(f"{reason}: it is still in the place of the finding", Cause.TIMEOUT)
            return Failed(reason, Cause.ELSEWHERE)
        if self.ended < 0:
            name = signal.Signals(-self.ended).name
            cause = Cause.CRASH if -self.ended in CRASHES else Cause.UNABLE
            return Failed(f"the program was ended by {name}{self.last_line}", cause)
        if not self.started:
            return Failed(
                "the program did not load the probes: it runs no Python, or Python with -I, -E or -S"
                f"{self.last_line}"
            )
        if self.driver_error:
            return Failed(self.driver_error)
        status = (("device", self.broken or "works"), ("exit status", str(self.ended)))
        return Returned(
            (*self.leaves((finding, turn, stop)), *status),
            held=int(finding in self.held),
            overtaken=(finding, turn) in self.overtaken,
            outlasted=finding in self.outlasted,
            errors=tuple(self.errors.get(finding, ())),
            watched=int(finding in self.watched),
            waited_s=self.waited.get((finding, turn), 0.0),
            opened_by=self.opened.get(finding, ""),
        )


@dataclass(frozen=True, slots=True)
class Control:
    """A serialized run in which the same is held back, where one is wanted; and what it left."""

    turn: int
    schedule: Schedule
    alone: bool = False
    """Whether nothing else is to be held back in it, or was."""
    seen: Seen = field(default_factory=Seen)


Asking: TypeAlias = "Generator[Control, Control, T]"
"""Steps that ask for such runs on their way: those of several findings are made together."""


def _advanced(steps: Asking[T], answer: Control | None) -> Control | T:
    """What the steps ask for next, or what they come to."""
    try:
        return next(steps) if answer is None else steps.send(answer)
    except StopIteration as end:
        return cast("T", end.value)


CRASHES: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)


class Program:
    """A command that can be run with probes."""

    def __init__(self, command: Sequence[str], cases: Sequence[Case], limits: Limits) -> None:
        self._command = list(command)
        self._cases = list(cases)
        self._limits = limits
        self._images: Path | None = None

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
        answers: dict[int, Control] = {}
        while waiting:
            asked: dict[tuple[Schedule, int | None], list[Execution]] = {}
            for number, steps in list(waiting.items()):
                step = _advanced(steps, answers.get(number))
                if isinstance(step, Control):
                    key = step.schedule, number if step.alone else None
                    asked.setdefault(key, []).append((number, step.turn))
                else:
                    del waiting[number]
                    done[number] = Confirmation(self._cases[number].plan, *step)
                    report(self._told(done[number], len(done)))
            answers = {}
            for (schedule, _), executions in asked.items():
                seen = self._run(Mode.CONTROL, executions, schedule)
                answers |= {n: Control(turn, schedule, len(executions) == 1, seen) for n, turn in executions}
        return [done[number] for number in numbers]

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
        gated = self._run(Mode.GATED, [(number, turn)], schedule)
        got = gated.outcome(number, turn, limit, stop)
        looked = (number, turn, stop) in reference.parts, (number, turn, stop) in gated.parts
        if looked == (True, False) and (gated.ended, gated.broken) == (reference.ended, reference.broken):
            reason = "the later operation was not reached in the delayed run"
            return Decision(Verdict.NOT_REACHED, reason), []
        runs = Runs(expected, expected, got, NOT_MADE)
        if suspicious(expected, got) and not isinstance(plan.witness, ByTime):
            again = yield Control(turn, schedule)
            runs = replace(runs, control=again.seen.outcome(number, turn, limit, stop))
            if not again.alone and (isinstance(runs.control, Failed) or suspicious(expected, runs.control)):
                # The delays of the other findings may have done it.
                again = yield Control(turn, schedule, alone=True)
                runs = replace(runs, control=again.seen.outcome(number, turn, limit, stop))
        decision = decide(plan.witness, runs, self._limits.delay_ms / 1e3)
        if decision.verdict in (Verdict.UNORDERED, Verdict.NOISY) and (number, turn) in gated.overtaken:
            decision = by_order(
                decision,
                self._run(Mode.ORDER, [(number, turn)], schedule).conflicts.get((number, turn)),
            )
        return decision, gated.others(number, schedule)

    def _run(self, mode: Mode, held: Sequence[Execution] = (), schedule: Schedule = Schedule()) -> Seen:
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
            job.write_text(json.dumps(self._job(mode, held, out, schedule)), "utf-8")
            environment = tidy_environment(hooks) | {JOB: str(job)}
            with _started(self._command, environment, folder) as process:
                ended = _wait(process, self._limits.timeout_s)
            seen = _read(out)
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


def _read(out: Path) -> Seen:
    """The events of all processes of a run; a line that was cut off is left out."""
    seen = Seen()
    for path in sorted(out.glob("*.jsonl"), key=lambda one: one.stat().st_mtime_ns):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):
                _add(seen, json.loads(line))
    return seen


def _add(seen: Seen, event: dict[str, Any]) -> None:  # noqa: C901, PLR0912 one case an event
    finding, turn = event.get("finding", 0), event.get("turn", 0)
    match event["event"]:
        case "start":
            seen.started = True
        case "reached":
            seen.reached[finding] = max(seen.reached.get(finding, 0), turn + 1)
        case "seen":
            name = f"{event['process']}: " if event["process"] else ""
            leaves = tuple((f"{name}{place}", str(text)) for place, text in event["leaves"])
            # Processes write in no order; each of them has a name.
            parts = seen.parts.setdefault((finding, turn, Stop(event["stop"])), [])
            parts.append((event["process"], leaves))
        case "held":
            seen.held.add(finding)
        case "other" if "hold" in event:
            seen.holds.setdefault(finding, set()).add(Hold(event["hold"]))
        case "other":
            seen.stops.setdefault(finding, set()).add(Stop(event["stop"]))
        case "watched":
            seen.watched.add(finding)
        case "waited":
            seen.waited[finding, turn] = max(seen.waited.get((finding, turn), 0.0), event["seconds"])
        case "overtaken":
            seen.overtaken.add((finding, turn))
        case "outlasted":
            seen.outlasted.add(finding)
        case "conflict":
            seen.conflicts[finding, turn] = Conflict(**event["conflict"])
        case "opened":
            seen.opened[finding] = event["call"]
        case "gates":
            seen.gates = event["text"]
            seen.environment["gates"] = event["text"]
        case "error":
            error = event["error"]
            found = CudaError(error["name"], error["code"], error["line"], error["in_callback"])
            seen.errors.setdefault(finding, []).append(found)
        case "inside" | "outside" as passed:
            seen.inside[finding] = seen.inside.get(finding, 0) + (1 if passed == "inside" else -1)
        case "broken":
            seen.broken = event["text"]
        case "driver":
            seen.driver_error = event["text"]
        case "environment":
            seen.environment |= event["versions"]
        case _:
            pass


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
