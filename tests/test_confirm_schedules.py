"""Which executions are held back, for how long, and what the threads of the host decide by themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from streamlint.confirm.plan.plans import Plan, Target, of_findings
from streamlint.confirm.run.runner import _narrower, confirm_all
from streamlint.confirm.run.server import Limits, Server
from streamlint.confirm.text.instrument import Place
from streamlint.confirm.verdict import Returned, Verdict
from streamlint.run.engine import Settings, analyze
from streamlint.witness import ByError
from tests.expectations import FIXTURES
from tests.forking import confirm, serve

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from streamlint.confirm.run.server import Run, Seen

# Forking is the point here; the threads that Python warns of belong to the pool that waits for it.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

PROGRAM = """\
import random
import threading
import time

import fakegpu


def ok():
    a, x = fakegpu.Stream(), [0]
    fakegpu.copy(x, [7], stream=a)
    fakegpu.synchronize()
    return x[0]


def last_of_nine():
    streams, results = [fakegpu.Stream() for _ in range(9)], [[0] for _ in range(9)]
    x, reader = [0], fakegpu.Stream()
    for stream, part in zip(streams, results):
        fakegpu.copy(part, [7], stream=stream)
    for stream in streams[:8]:
        fakegpu.wait(reader, stream)
    fakegpu.copy(x, results[8], stream=reader)
    fakegpu.synchronize()
    return x[0]


def note(seen):
    time.sleep(0.2)
    seen.append(7)


def worker_in_time():
    # Whether the worker has begun when the main thread returns is decided by no stream.
    stream, x, seen = fakegpu.Stream(), [0], []
    fakegpu.copy(x, [7], stream=stream)
    threading.Thread(target=note, args=(seen,)).start()
    fakegpu.pause(x)
    for _ in range(20):  # time for the worker, if the main thread is the slow one
        pass
    return len(seen)


def look(x, seen):
    seen.append(x[0])


def worker_reads():
    stream, x, seen = fakegpu.Stream(), [0], []
    fakegpu.copy(x, [7], stream=stream)
    worker = threading.Thread(target=look, args=(x, seen))
    worker.start()
    worker.join()
    return seen


def draws():
    stream, x = fakegpu.Stream(), [0]
    fakegpu.copy(x, [7], stream=stream)
    fakegpu.synchronize()
    return random.random()
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return serve(PROGRAM, tmp_path, monkeypatch)


def test_the_last_turn_of_a_long_loop_is_held_back_alone(program: Path) -> None:
    done = confirm(program, "last_of_nine", "copy(part")
    assert (done.decision.verdict, done.plan.turn) == (Verdict.CONFIRMED, 8)


def test_where_the_host_was_too_slow_the_gates_hold_for_longer(program: Path) -> None:
    plan = Plan(program, program.parent, "ok", None)
    assert list(_narrower(plan, Returned((), 1, expired=True))) == [replace(plan, longer=True)]
    assert list(_narrower(plan, Returned((), 1, expired=True, outlasted=True))) == []


@pytest.mark.parametrize("shared", [False, True])
def test_threads_of_the_host_that_race_are_no_evidence(program: Path, shared: bool) -> None:
    decision = confirm(program, "worker_in_time", "copy(x", shared=shared).decision
    assert decision.verdict is Verdict.NOISY
    assert "threads is slow" in decision.reason


def test_a_race_that_a_thread_meets_is_evidence(program: Path) -> None:
    assert confirm(program, "worker_reads", "copy(x").decision.verdict is Verdict.CONFIRMED


def test_random_numbers_are_the_same_in_each_run_of_a_process(program: Path) -> None:
    assert confirm(program, "draws", "copy(x", shared=True).decision.verdict is Verdict.ORDERED


def test_a_crash_while_the_stacks_are_written_is_a_program_that_does_not_end(
    program: Path, tmp_path: Path
) -> None:
    path = tmp_path / "endless.py"
    path.write_text(
        "import faulthandler, os\n\nfaulthandler.disable()\n\ndef endless():\n"
        "    os.write(2, b'Timeout (0:00:01)!\\nThread 0x1 (most recent call first):\\n  File ')\n"
        "    os.kill(os.getpid(), 11)\n"
    )
    del program
    plan = Plan(path, tmp_path, "endless", Place(6), witness=ByError(crash=True))
    (done,) = confirm_all([plan], Limits(timeout_s=5))
    assert done.decision.verdict is Verdict.NOT_RUN
    assert "did not end within 5 s" in done.decision.reason


def test_a_host_function_is_held_back_where_it_is_queued() -> None:
    path = FIXTURES / "cupy" / "sl101_host_functions.py"
    found = [one for one in analyze(FIXTURES.parent, [path], Settings()).findings if one.code == "SL102"]
    (plan,) = of_findings(Target(path, "overwritten_by_download_bad"), FIXTURES.parent, found)
    assert plan.earlier is not None
    assert "launch_host_func" in path.read_text("utf-8").splitlines()[plan.earlier.line - 1]


def test_what_a_shared_process_does_not_show_is_run_alone(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    run = Server.run

    def seen(server: Server, runs: Sequence[Run], *, alone: bool = False) -> list[Seen]:
        if alone:
            asked.append([one.mode.value for one in runs])
        return run(server, runs, alone=alone)

    monkeypatch.setattr(Server, "run", seen)
    assert (
        confirm(program, "ok", "copy(x", later="synchronize", shared=True).decision.verdict is Verdict.ORDERED
    )
    assert asked == [["gated"]]
