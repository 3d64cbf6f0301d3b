"""Runs the plans of one function, each run in a process of its own with a time limit."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import assert_never

from streamlint.confirm.child import imports
from streamlint.confirm.instrument import Purpose
from streamlint.confirm.probe import Mode
from streamlint.confirm.processes import end_all, tidy_environment
from streamlint.confirm.verdict import (
    NOT_MADE,
    Cause,
    CudaError,
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
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from streamlint.confirm.instrument import Place
    from streamlint.confirm.plan import Plan

_PRELOAD = {
    "numpy": "numpy",
    "torch": "torch",
    "cupy": "cupy",
    "numba": "numba.cuda",
    "cuda": "cuda.bindings.runtime",
}
"""Slow imports that do not touch the GPU (measured: the driver is not initialized after them), so that a
process can be forked then; by the name that a program imports."""


_FOLDER = "STREAMLINT_CONFIRM_FOLDER"
"""Marks what the runs start, so that nothing of it is left behind."""

MAX_TURNS = 4
"""So many executions of one statement are held back one by one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """``delay_ms``: how long one gate holds. ``timeout_s``: after which a run is killed."""

    delay_ms: float = 200.0
    timeout_s: float = 120.0
    python: str = sys.executable
    shared: bool = False
    """Whether the runs of one function share a process: faster, but a run may find memory as an
    earlier one left it, and in it the right value that it did not wait for."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    plan: Plan
    decision: Decision
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a plan's function."""

    plan: Plan
    mode: Mode


@dataclass(frozen=True, slots=True)
class Seen:
    outcome: Outcome
    environment: dict[str, str]


class Server:
    """A process that forks one child for each run."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, limits: Limits) -> None:
        self._process = process
        self._folder = folder
        self._limits = limits

    def run(self, runs: Sequence[Run]) -> list[Seen]:
        """Make each of these runs, in one process as long as all goes well.

        What a run started does not outlive this call.
        """
        seen: list[Seen] = []
        while len(seen) < len(runs):
            seen.extend(self._one_process(runs[len(seen) :]))
            broken = runs[len(seen) - 1].plan
            while isinstance(seen[-1].outcome, Failed) and len(seen) < len(runs):
                # What could not run once is not run again: each try may cost the whole timeout.
                if runs[len(seen)].plan.function != broken.function:
                    break
                seen.append(seen[-1])
        return seen

    def _one_process(self, runs: Sequence[Run]) -> list[Seen]:
        limits = self._limits
        request = {
            "job": _job(runs, limits),
            "timeout_s": limits.timeout_s,
            "log": str(self._folder / "log"),
        }
        try:
            answer = self._ask(json.dumps(request))
        except BrokenPipeError:
            answer = ""
        if not answer:
            return [Seen(Failed("the interpreter that runs the programs could not be started"), {})]
        return [parse_outcome(data) for data in json.loads(answer)]

    def _ask(self, line: str) -> str:
        if self._process.stdin is None or self._process.stdout is None:
            return ""
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


@contextmanager
def serving(root: Path, preload: Sequence[str], limits: Limits) -> Iterator[Server]:
    """A server for programs below ``root``, gone when the block is left."""
    with tempfile.TemporaryDirectory(prefix="streamlint-confirm-") as folder:
        # All kernels of PyTorch take 3 s to load; its programs are called once before the run instead.
        lazy = limits.shared or "torch" in preload
        environment = server_environment(Path(folder), root, lazy=lazy)
        process = subprocess.Popen(
            [limits.python, "-m", "streamlint.confirm.child", *preload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            cwd=root,
            # A session of its own: Ctrl-C reaches this process alone, which then ends the server.
            start_new_session=True,
        )
        try:
            yield Server(process, Path(folder), limits)
        finally:
            _end(process)
            end_all(environment[_FOLDER])


def server_environment(folder: Path, root: Path, *, lazy: bool) -> dict[str, str]:
    """The environment of the runs of functions; ``folder`` is the server's own."""
    own = folder / "own"
    own.mkdir()
    # Only this package: what else is installed beside it may not fit the program's interpreter.
    (own / "streamlint").symlink_to(Path(__file__).resolve().parents[1], target_is_directory=True)
    environment = tidy_environment(own, lazy=lazy) | {_FOLDER: str(folder)}
    environment["PYTHONPATH"] += os.pathsep + str(root)
    return environment


def _end(process: subprocess.Popen[str]) -> None:
    # A run that is still going on leads its own session, so it is looked up before its parent ends.
    for child in _children(process.pid):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    with suppress(OSError):
        return [int(child) for child in listed.read_text("ascii").split()]
    return []


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


def slow_imports(paths: Iterable[Path]) -> list[str]:
    """What programs in these files import and a server can import before them.

    :raises SyntaxError: a file is not Python.
    """
    trees = [ast.parse(path.read_bytes()) for path in paths]
    return [slow for name, slow in _PRELOAD.items() if any(imports(tree, name) for tree in trees)]


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
        seen |= self._run(self._controls(plans, seen))
        done = [self._decide(plan, seen) for plan in plans]
        return self._single_turns(done, seen)

    def _single_turns(self, done: list[Confirmation], seen: dict[Run, Seen]) -> list[Confirmation]:
        """Hold back one execution at a time, where holding back all showed nothing.

        In ``for s in streams: launch(s)`` with a wait for the first stream only, holding both back
        delays the reader too, and it comes late enough to be right by luck.
        """
        turns: dict[int, list[Plan]] = {}
        for index, confirmation in enumerate(done):
            plan = confirmation.plan
            outcome = self._seen(plan, seen, Mode.GATED).outcome
            if confirmation.decision.verdict in (Verdict.ORDERED, Verdict.UNORDERED) and plan.turn is None:
                held = outcome.held if isinstance(outcome, Returned) else 0
                if held > 1:
                    turns[index] = [replace(plan, turn=turn) for turn in range(min(held, MAX_TURNS))]
        plans = [plan for few in turns.values() for plan in few]
        seen |= self._run([Run(plan, Mode.GATED) for plan in plans])
        seen |= self._run(self._controls(plans, seen))
        for index, few in turns.items():
            for plan in few:
                single = self._decide(plan, seen)
                if single.decision.verdict is Verdict.CONFIRMED:
                    done[index] = single
                    break
        return done

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
        """The plan's own run in this mode; the reference is shared by the plans of a function."""
        if mode is not Mode.REFERENCE:
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
        )
        decision = decide(plan.witness, runs, self._limits.delay_ms / 1e3)
        environment = next((s.environment for s in by_mode.values() if s.environment), {})
        return Confirmation(plan, decision, environment)


_NOT_MADE = Seen(NOT_MADE, {})


def _job(runs: Sequence[Run], limits: Limits) -> dict[str, Any]:
    return {
        "root": str(runs[0].plan.root),
        "delay_ms": limits.delay_ms,
        "runs": [
            {
                "path": str(run.plan.path),
                "function": run.plan.function,
                "mode": run.mode.value,
                "earlier": _place(run.plan.earlier),
                "later": _place(run.plan.later),
                "turn": run.plan.turn,
                "purpose": _purpose(run.plan.witness).value,
                "rehearsal": None if (mode := _rehearsal(run)) is None else mode.value,
            }
            for run in runs
        ],
    }


def _purpose(witness: Witness) -> Purpose:
    match witness:
        case ByReuse(stale=stale):
            return Purpose.STALE if stale else Purpose.REUSE
        case ByDeadlock():
            return Purpose.DEADLOCK
        case ByValue() | ByError() | ByLateError() | ByTime() | NoWitness():
            return Purpose.ORDER
        case _:
            assert_never(witness)


def _rehearsal(run: Run) -> Mode | None:
    """How the function is called once before, so that its kernels are compiled and loaded."""
    if run.mode in (Mode.PLAIN, Mode.UNBLOCKED):
        return None
    # Serialized, a right program may hang: where the device is waited for before `ready.set()`.
    return Mode.PLAIN if isinstance(run.plan.witness, ByDeadlock) else Mode.REFERENCE


def _place(place: Place | None) -> list[int | None] | None:
    return None if place is None else [place.line, place.col]


def parse_outcome(data: dict[str, Any]) -> Seen:
    """Read a child's answer: the outcome, and the versions of what took part."""
    environment: dict[str, str] = data.get("environment", {})
    errors = tuple(
        CudaError(e["name"], e["code"], e["line"], e["in_callback"]) for e in data.get("errors", ())
    )
    match data["status"]:
        case "returned":
            value = tuple((str(place), str(text)) for place, text in data["value"])
            held, overtaken = data["held"], data["overtaken"]
            returned = Returned(value, held, overtaken, errors, data["watched"], data["waited_s"])
            return Seen(returned, environment)
        case "raised":
            return Seen(Raised(data["error"], errors), environment)
        case _:
            return Seen(Failed(data["reason"], Cause(data["cause"])), environment)
