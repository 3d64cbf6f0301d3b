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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from streamlint.confirm.child import imports
from streamlint.confirm.probe import Mode
from streamlint.confirm.verdict import (
    CudaError,
    Decision,
    Failed,
    Outcome,
    Raised,
    Returned,
    decide,
    suspicious,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.confirm.instrument import Place
    from streamlint.confirm.plan import Plan

_PRELOAD = ("numpy", "torch")
"""Slow imports that do not touch the GPU, so that a process can be forked after them."""


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
        """Run one function in each of these ways, in one process as long as all goes well.

        What a run started does not outlive this call.
        """
        seen: list[Seen] = []
        while len(seen) < len(runs):
            answers = self._process_for(runs[len(seen) :])
            seen.extend(answers)
            if isinstance(answers[-1].outcome, Failed):
                # What could not run once is not run again: each try may cost the whole timeout.
                seen.extend([answers[-1]] * (len(runs) - len(seen)))
        return seen

    def _process_for(self, runs: Sequence[Run]) -> list[Seen]:
        limits = self._limits
        patience = limits.timeout_s * len(runs)
        request = {"job": _job(runs, limits), "timeout_s": patience, "log": str(self._folder / "log")}
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
        process = subprocess.Popen(
            [limits.python, "-m", "streamlint.confirm.child", *preload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=child_environment(root, shared=limits.shared),
            cwd=root,
            # A session of its own: Ctrl-C reaches this process alone, which then ends the server.
            start_new_session=True,
        )
        try:
            yield Server(process, Path(folder), limits)
        finally:
            _end(process)


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


def confirm_all(plans: Sequence[Plan], limits: Limits, jobs: int = 1) -> list[Confirmation]:
    """Run plans of one root, those of different functions up to ``jobs`` at the same time."""
    # One function is one piece of work, because its plans share their serialized runs.
    groups = [list(group) for _, group in groupby(plans, lambda plan: (plan.path, plan.function))]
    trees = [ast.parse(path.read_bytes()) for path in {plan.path for plan in plans}]
    preload = [name for name in _PRELOAD if any(imports(tree, name) for tree in trees)]
    todo = iter(enumerate(groups))
    done: dict[int, list[Confirmation]] = {}
    lock = Lock()

    def work() -> None:
        with serving(plans[0].root, preload, limits) as server:
            while True:
                with lock:
                    index, group = next(todo, (-1, []))
                if not group:
                    return
                done[index] = _confirm_group(server, group, limits)

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        for worker in [pool.submit(work) for _ in range(min(max(1, jobs), len(groups)))]:
            worker.result()
    return [confirmation for index in range(len(groups)) for confirmation in done[index]]


def _confirm_group(server: Server, group: Sequence[Plan], limits: Limits) -> list[Confirmation]:
    """Plans of one function: they share their serialized runs, unless one of them shows something."""
    first = group[0]
    runs = [Run(first, Mode.REFERENCE), Run(first, Mode.CONTROL), *(Run(plan, Mode.GATED) for plan in group)]
    if limits.shared:
        reference, control, *gated = server.run(runs)
    else:
        reference = server.run(runs[:1])[0]
        failed = isinstance(reference.outcome, Failed)
        control, *gated = [reference] * len(runs[1:]) if failed else [server.run([r])[0] for r in runs[1:]]
    done = []
    for plan, seen in zip(group, gated, strict=True):
        delayed = control
        if plan is not first and suspicious(reference.outcome, seen.outcome):
            # Before anything is claimed, the very delays of this plan must be shown to be harmless.
            delayed = server.run([Run(plan, Mode.CONTROL)])[0]
        decision = decide(
            reference.outcome,
            delayed.outcome,
            seen.outcome,
            expects_callback_error=plan.expects_callback_error,
        )
        done.append(Confirmation(plan, decision, reference.environment))
    return done


def _job(runs: Sequence[Run], limits: Limits) -> dict[str, Any]:
    plan = runs[0].plan
    return {
        "path": str(plan.path),
        "root": str(plan.root),
        "function": plan.function,
        "delay_ms": limits.delay_ms,
        "runs": [
            {"mode": run.mode.value, "earlier": _place(run.plan.earlier), "later": _place(run.plan.later)}
            for run in runs
        ],
    }


def _place(place: Place | None) -> list[int | None] | None:
    return None if place is None else [place.line, place.col]


def child_environment(root: Path, *, shared: bool) -> dict[str, str]:
    """The environment of the runs: the user's, without what would hide a missing order."""
    environment = dict(os.environ)
    # Would serialize every launch, in the gated run as well.
    environment.pop("CUDA_LAUNCH_BLOCKING", None)
    # Loading a kernel at its first use can wait for the device, and with it for the gate.
    # Where a process is shared, the serialized run has loaded everything before the first gate.
    environment.setdefault("CUDA_MODULE_LOADING", "LAZY" if shared else "EAGER")
    # With few hardware queues, streams that share one wait for each other.
    environment.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    own = str(Path(__file__).resolve().parents[2])
    inherited = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([own, *([inherited] if inherited else []), str(root)])
    return environment


def parse_outcome(data: dict[str, Any]) -> Seen:
    """Read a child's answer: the outcome, and the versions of what took part."""
    environment: dict[str, str] = data.get("environment", {})
    errors = tuple(CudaError(e["name"], e["code"], e["line"]) for e in data.get("callback_errors", ()))
    match data["status"]:
        case "returned":
            value = tuple((str(place), str(text)) for place, text in data["value"])
            return Seen(Returned(value, data["held"], data["overtaken"], errors), environment)
        case "raised":
            return Seen(Raised(data["error"], errors), environment)
        case _:
            return Seen(Failed(data["reason"]), environment)
