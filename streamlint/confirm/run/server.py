"""The process that forks one child for each run, and what it is told and answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import assert_never

from streamlint.confirm.inside.child import imports
from streamlint.confirm.inside.probe import Mode
from streamlint.confirm.run.processes import end_all, tidy_environment
from streamlint.confirm.terms import Cause, CudaError
from streamlint.confirm.text.instrument import Purpose
from streamlint.confirm.verdict import Failed, Outcome, Raised, Returned
from streamlint.files import UnreadableError, read, text_of
from streamlint.frozen import frozen
from streamlint.parsing import UnparsableError, parse
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
    from collections.abc import Iterable, Iterator, Sequence

    from streamlint.confirm.plan.plans import Plan
    from streamlint.confirm.text.instrument import Place

_PRELOAD = {
    "numpy": "numpy",
    "torch": "torch",
    "cupy": "cupy",
    "numba": "numba.cuda",
    "cuda": "cuda.bindings.runtime",
}
"""Slow imports that do not touch the GPU (measured: the driver is not initialized after them), so that a
process can be forked then; by the name that a program imports."""


_LONGER = 5
"""How many delays a schedule takes in which the host is given its time."""

_FOLDER = "STREAMLINT_CONFIRM_FOLDER"
"""Marks what the runs start, so that nothing of it is left behind."""


@frozen()
class Limits:
    """``delay_ms``: how long one gate holds. ``timeout_s``: after which a run is killed."""

    delay_ms: float = 200.0
    timeout_s: float = 120.0
    python: str = sys.executable
    shared: bool = False
    """Whether runs share a process: faster, but a run may find memory as an earlier one left it, and in it
    the right value that it did not wait for."""


@frozen()
class Run:
    """One execution of a plan's function."""

    plan: Plan
    mode: Mode


@frozen()
class Seen:
    outcome: Outcome
    environment: dict[str, str]


class Server:
    """A process that forks one child for each run."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, limits: Limits) -> None:
        self._process = process
        self._folder = folder
        self._limits = limits

    def run(self, runs: Sequence[Run], *, alone: bool = False) -> list[Seen]:
        """Make each of these runs, in one process as long as all goes well.

        What a run started does not outlive this call, unless runs share a process and this one is not
        to be ``alone``: then the process is kept for other runs.
        """
        seen: list[Seen] = []
        while len(seen) < len(runs):
            seen.extend(self._one_process(runs[len(seen) :], kept=self._limits.shared and not alone))
            broken = runs[len(seen) - 1].plan
            while isinstance(seen[-1].outcome, Failed) and len(seen) < len(runs):
                # What could not run once is not run again: each try may cost the whole timeout.
                if runs[len(seen)].plan.function != broken.function:
                    break
                seen.append(seen[-1])
        return seen

    def _one_process(self, runs: Sequence[Run], *, kept: bool) -> list[Seen]:
        limits = self._limits
        request = {
            "job": _job(runs, limits),
            "timeout_s": limits.timeout_s,
            "log": str(self._folder / "log"),
            "kept": kept,
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
        environment = server_environment(Path(folder), root, lazy="torch" in preload)
        process = subprocess.Popen(
            [limits.python, "-m", "streamlint.confirm.inside.forks", *preload],
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
    (own / "streamlint").symlink_to(Path(__file__).resolve().parents[2], target_is_directory=True)
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


def slow_imports(paths: Iterable[Path]) -> list[str]:
    """What programs in these files import and a server can import before them.

    What is wrong with a file is told where it is to be run.
    """
    trees = []
    for path in paths:
        with suppress(UnreadableError, UnparsableError):
            trees.append(parse(text_of(read(path))))
    return [slow for name, slow in _PRELOAD.items() if any(imports(tree, name) for tree in trees)]


def _job(runs: Sequence[Run], limits: Limits) -> dict[str, Any]:
    return {
        "root": str(runs[0].plan.root),
        "runs": [
            {
                "path": str(run.plan.path),
                "function": run.plan.function,
                "mode": run.mode.value,
                "earlier": _place(run.plan.earlier),
                "later": _place(run.plan.later),
                "turn": run.plan.turn,
                "delay_ms": limits.delay_ms * (_LONGER if run.plan.longer else 1),
                "hold": run.plan.hold.value,
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
            returned = Returned(
                value,
                data["held"],
                data["overtaken"],
                errors,
                data["watched"],
                data["waited_s"],
                tuple(data["others"]),
                data["outlasted"],
                expired=data["expired"],
                threads=data["threads"],
            )
            return Seen(returned, environment)
        case "raised":
            return Seen(Raised(data["error"], errors, data["threads"]), environment)
        case _:
            return Seen(Failed(data["reason"], Cause(data["cause"])), environment)
