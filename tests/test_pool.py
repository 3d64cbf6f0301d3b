"""Worker processes that die, hang, cannot be started, or lose the one that they work for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlint.run import engine, parallel, pool
from tests.test_tree import written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.run.worker import Work

DEEDS = '''\
"""What the workers of these tests do, as the names of the paths say."""

import ctypes, os, re, signal, sys, time

class Deeds:
    def start(self):
        if os.path.exists("no start"):
            sys.exit("no start")

    def do(self, path):
        deed = path.name.partition(" ")[0]
        first = not path.exists()
        path.write_text(str(os.getpid()))
        if deed == "die" or (deed == "stumble" and first):
            os.kill(os.getpid(), signal.SIGKILL)
        if deed == "sleep":
            time.sleep(60)
        if deed == "stick":
            ctypes.PyDLL(None).sleep(60)  # in C, and without letting another thread run
        if deed == "burn":
            re.match("(a+)+$", "a" * 60 + "b")  # the same, and for good
        if deed == "nap":
            time.sleep(2)
        return [path.name, os.getpid()]
'''
PATIENCE = 60.0
"""Seconds after which a test gives up waiting; on an idle machine nothing here takes two."""


@pytest.fixture
def deeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "deeds.py").write_text(DEEDS, "utf-8")
    (tmp_path / "tree").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "own")
    monkeypatch.chdir(tmp_path / "tree")
    import deeds  # type: ignore[import-not-found]

    work: Work = deeds.Deeds()
    return work


def told(
    work: Work, *names: str, workers: int = 2, patience: pool.Patience = pool.PATIENCE
) -> dict[str, object]:
    here = Path.cwd()
    with closing(pool.answers([here / name for name in names], work, here, workers, patience)) as answers:
        pairs = list(answers)
    assert len({path for path, _ in pairs}) == len(pairs)
    return {path.name: answer for path, answer in pairs}


def alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return status != "Z"


def wait_until(what: Sequence[Path], *, gone: bool = False) -> list[int]:
    """Wait for the files to hold the ids of processes, or for those processes to be gone."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        pids = [int(text) for path in what if path.exists() and (text := path.read_text("ascii"))]
        if len(pids) == len(what) and (not gone or not any(map(alive, pids))):
            return pids
        time.sleep(0.02)
    raise AssertionError("still waiting")


def test_every_path_is_answered_once(deeds: Work) -> None:
    names = [f"work {number}" for number in range(20)]
    answers = told(deeds, *names)
    assert sorted(answers) == sorted(names)
    assert all(answer == [name, pid] for name, answer in answers.items() for pid in [_pid(answer)])
    assert os.getpid() not in {_pid(answer) for answer in answers.values()}


def _pid(answer: object) -> int:
    assert isinstance(answer, list)
    return int(answer[1])


def test_the_work_of_a_killed_worker_is_done_again_by_another(deeds: Work) -> None:
    answers = told(deeds, "stumble", "work 1", "work 2", workers=1)
    assert sorted(answers) == ["stumble", "work 1", "work 2"]
    assert not any(isinstance(answer, pool.Lost) for answer in answers.values())


def test_a_path_that_kills_two_workers_is_named_and_the_others_are_kept(deeds: Work) -> None:
    answers = told(deeds, "die", "work 1", "work 2", "work 3")
    lost = answers.pop("die")
    assert isinstance(lost, pool.Lost)
    assert "killed or crashed" in lost.reason
    assert sorted(answers) == ["work 1", "work 2", "work 3"]


def test_a_path_that_takes_too_long_is_named_and_the_others_are_kept(deeds: Work) -> None:
    answers = told(deeds, "stick", "work 1", "work 2", workers=1, patience=pool.Patience(clock=3))
    assert answers.pop("stick") == pool.Lost("not done after 3 s")
    assert sorted(answers) == ["work 1", "work 2"]


needs_cpu_time = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system limits no CPU time")


@needs_cpu_time
def test_a_path_that_takes_too_much_cpu_time_is_named_and_the_others_are_kept(deeds: Work) -> None:
    """Also deep in a call that lets no other thread run, and it is not tried again."""
    answers = told(deeds, "burn", "work 1", "work 2", workers=1, patience=pool.Patience(cpu=0.3))
    assert answers.pop("burn") == pool.Lost("not done after 0.3 s of CPU time")
    assert sorted(answers) == ["work 1", "work 2"]


@needs_cpu_time
def test_time_on_the_clock_ends_nothing_that_hardly_runs(deeds: Work) -> None:
    """A worker on a busy machine waits more than it runs: what it finds must not depend on that."""
    names = ["nap 1", "nap 2"]
    answers = told(deeds, *names, patience=pool.Patience(cpu=1))
    assert not any(isinstance(answers[name], pool.Lost) for name in names)


def test_without_processes_there_are_no_answers(deeds: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("no start").touch()
    assert told(deeds, "work") == {}
    monkeypatch.setattr(sys, "executable", str(Path.cwd() / "missing"))
    assert told(deeds, "work") == {}
    monkeypatch.setattr(sys, "executable", None)
    assert told(deeds, "work") == {}


def test_without_processes_files_are_analyzed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "WORTH_A_POOL", 1)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    files = written(tmp_path, {"one.py": "import torch\ns = torch.cuda.Stream()\n", "two.py": "x = 1\n"})
    assert engine.analyze(tmp_path, files, engine.Settings(jobs=2)).analyzed == 1


def test_workers_end_when_nobody_wants_more(deeds: Work) -> None:
    here = Path.cwd()
    with closing(pool.answers([here / "sleep", here / "work"], deeds, here, 2)) as answers:
        assert next(answers)[0].name == "work"
        asleep = wait_until([here / "sleep"])
        start = time.monotonic()
    assert time.monotonic() - start < 10
    assert not any(map(alive, asleep))


ALONE = """\
import sys
from pathlib import Path
from deeds import Deeds
from streamlint.run import pool
paths = [Path(name).absolute() for name in sys.argv[1:]]
list(pool.answers(paths, Deeds(), Path("tree"), 2))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("deed", ["sleep", "stick", "burn"])
def test_workers_die_with_their_parent(deeds: Work, tmp_path: Path, deed: str) -> None:
    """At once, also if it has no time to say so, and deep in a call that lets no other thread run."""
    program = tmp_path / "own" / "alone.py"
    program.write_text(ALONE, "utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    busy = [Path(f"{deed} {number}").absolute() for number in "12"]
    parent = subprocess.Popen([sys.executable, program, *busy], env=environment)
    try:
        workers = wait_until(busy)
        assert all(map(alive, workers))
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        killed = time.monotonic()
    wait_until(busy, gone=True)
    assert time.monotonic() - killed < 5


@pytest.mark.parametrize(
    ("wanted", "files", "count"),
    [(200, 500, 4), (200, 3, 3), (0, 500, 4), (1, 500, 1), (3, 500, 3)],
)
def test_no_more_processes_than_cores_and_files(
    monkeypatch: pytest.MonkeyPatch, wanted: int, files: int, count: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert pool.count(wanted, files) == count
