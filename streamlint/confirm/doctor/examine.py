"""Makes all experiments in child processes, so that an error or a hang in one spoils no other."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamlint.confirm.doctor.axiom import Result, Verdict
from streamlint.confirm.run.processes import tidy_environment
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.confirm.doctor.axiom import Axiom, Group

TIMEOUT_S = 40.0
"""Limit of one experiment; the first one of a process also loads what the library needs."""


@frozen()
class Entry:
    """An axiom, the heading it stands under, and what came out."""

    section: str
    axiom: Axiom
    result: Result
    library: str = ""


@dataclass(slots=True)
class Examination:
    entries: list[Entry] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)


class Child:
    """A process that has imported ``library`` and waits for experiments to make."""

    def __init__(self, library: str, python: str) -> None:
        # The libraries' messages are not for the table; what fails is told as a result.
        quiet = os.environ.get("STREAMLINT_DEBUG") != "1"
        self._process = subprocess.Popen(
            [python, "-m", "streamlint.confirm.doctor.child", library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            text=True,
            env=tidy_environment(Path.cwd(), lazy=True),
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def answers(self, wanted: Sequence[tuple[int, int]]) -> Iterator[dict[str, Any]]:
        """What the child answers; ``{"end": reason}`` where it ends early."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended; why is told below
            self._process.stdin.write(json.dumps(wanted) + "\n")
            self._process.stdin.flush()
        while True:
            try:
                line = self._lines.get(timeout=TIMEOUT_S)
            except queue.Empty:
                yield {"end": f"did not end within {TIMEOUT_S:g} s"}
                return
            if not line:
                self._process.wait()
                yield {"end": f"the process ended with status {self._process.returncode}"}
                return
            yield json.loads(line)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def examine(groups: Sequence[Group], python: str = sys.executable) -> Examination:
    """Make the experiments of all groups."""
    libraries = list(dict.fromkeys(group.library for group in groups))
    # All at once: imports take longer than experiments. These are made in one process at a time.
    children = {library: Child(library, python) for library in libraries}
    results: dict[tuple[int, int], Result] = {}
    versions: dict[str, str] = {}
    try:
        for library in libraries:
            wanted = [
                (g, number)
                for g, group in enumerate(groups)
                if group.library == library
                for number in range(len(group.axioms))
            ]
            while wanted:
                done = _one_process(children[library], wanted, versions)
                results.update(zip(wanted, done, strict=False))
                wanted = wanted[len(done) :]
                children[library].end()
                if wanted:
                    children[library] = Child(library, python)
    finally:
        for child in children.values():
            child.end()
    entries = [
        Entry(group.section, axiom, results[g, number], group.library)
        for g, group in enumerate(groups)
        for number, axiom in enumerate(group.axioms)
    ]
    return Examination(entries, versions)


def _one_process(child: Child, wanted: Sequence[tuple[int, int]], versions: dict[str, str]) -> list[Result]:
    """The results of the first experiments, one at least: the last is that after which the child ended."""
    done: list[Result] = []
    for answer in child.answers(wanted):
        match answer:
            case {"library": str(name), "version": str(version)}:
                versions[name] = version
            case {"fatal": str(reason)}:
                return [Result(Verdict.NOT_TESTED, reason)] * len(wanted)
            case {"result": [verdict, measured, seconds]}:
                done.append(Result(Verdict(verdict), measured, seconds))
                if len(done) == len(wanted):
                    return done
            case {"end": str(reason)}:
                # A child that could not go on after an experiment has answered, and said nothing of the next.
                return done or [Result(Verdict.FAILS, reason)]
            case _:
                raise AssertionError(answer)
    raise AssertionError("answers end with an end")
