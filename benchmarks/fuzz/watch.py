"""Programs are checked in a child that is watched from outside."""

from __future__ import annotations

import multiprocessing
import sys
from typing import TYPE_CHECKING

from benchmarks.fuzz.checks import BYTES, Outcome, Trouble, run
from benchmarks.fuzz.programs import Programs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

PATIENCE = 120.0
"""After this a child is taken to hang."""


def _child(pipe: Connection, seed: int, folders: Sequence[Path], first: int, count: int) -> None:
    _limit_memory()
    programs = Programs(seed, folders)
    for number in range(first, first + count):
        pipe.send(number)
        pipe.send(run(programs, [number]))
    pipe.send(None)


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (6 * BYTES, 6 * BYTES))


def watched(
    seed: int, folders: Sequence[Path], first: int, count: int, on: Callable[[int, Outcome], bool]
) -> None:
    """Checks programs in a child. Where one hangs or dies, the next child goes on behind it.

    ``on`` gets what came of each and says whether to go on.
    """
    context = multiprocessing.get_context("spawn")
    last = first + count
    while first < last:
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_child, args=(theirs, seed, folders, first, last - first), daemon=True)
        child.start()
        theirs.close()
        number: int | None = first
        try:
            while ours.poll(PATIENCE):
                number = ours.recv()
                if number is None:
                    return
                first = number + 1
                if not ours.poll(PATIENCE):
                    break
                if not on(number, ours.recv()):
                    return
            what = f"hangs: killed after {PATIENCE:.0f} s"
        except EOFError:
            what = "the process died"
        finally:
            child.kill()
            child.join()
        program = Programs(seed, folders)[first - 1]
        if not on(first - 1, Outcome(troubles=[Trouble(program, what)])):
            return
