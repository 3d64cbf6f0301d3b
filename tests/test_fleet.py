"""Where the work is done does not change what is found: executors of Python, and a Dask of two workers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlint.errors import UserError
from streamlint.run import engine, fleet
from streamlint.run.results import Settings
from tests.test_processes import BASE, DERIVED
from tests.test_tree import written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.finding import Report

REPOSITORY = Path(__file__).parents[1]
TREE = {"base.py": BASE, "broken.py": "def (", **{f"late{n}.py": DERIVED for n in range(3)}}


def report(root: Path, executor: str = "", progress: Callable[[int, int], None] | None = None) -> Report:
    files = written(root, TREE)
    return engine.analyze(root, files, Settings(evidence=False, executor=executor), progress=progress)


def use(monkeypatch: pytest.MonkeyPatch, executor: Executor) -> None:
    """Tasks of one file each, in this executor."""

    @contextmanager
    def connected(_: str) -> Iterator[Executor]:
        with executor:
            yield executor

    monkeypatch.setattr(fleet, "_connected", connected)
    monkeypatch.setattr(fleet, "TASK", 1)


def test_an_executor_gives_what_a_local_run_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = report(tmp_path)
    assert expected.findings
    assert expected.errors
    use(monkeypatch, ThreadPoolExecutor(2))
    assert report(tmp_path, "threads") == expected


class Failing(ThreadPoolExecutor):
    def submit(self, *_: object, **__: object) -> Future[object]:  # type: ignore[override]
        failed: Future[object] = Future()
        failed.set_exception(RuntimeError("all workers were killed"))
        return failed


def test_files_of_a_task_that_fails_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Failing())
    found = report(tmp_path, "failing")
    assert [error.path for error in found.errors] == sorted(TREE)
    assert all("all workers were killed" in error.message for error in found.errors)


def test_another_version_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, ThreadPoolExecutor(1))
    monkeypatch.setattr(fleet, "__version__", "0.0.1")
    real = fleet._do
    monkeypatch.setattr(fleet, "_do", lambda _, *rest: real("0.0.2", *rest))
    found = report(tmp_path, "other")
    assert "streamlint 0.0.1 is installed there, and 0.0.2 here" in found.errors[0].message


@pytest.mark.parametrize("address", ["dask", "dask://", "ray://127.0.0.1:1"])
def test_an_address_of_no_executor(tmp_path: Path, address: str) -> None:
    with pytest.raises(UserError, match="is not of the form dask://HOST:PORT"):
        report(tmp_path, address)


# ----------------------------------------------------------------------------- Dask

WORKERS = 2


def dask(*words: str, folder: Path) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "60s",
    }
    command = [sys.executable, "-m", "dask", *words, "--scheduler-file", str(folder / "scheduler.json")]
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler, and its workers."""
    distributed = pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("dask")
    loopback = ("--host", "127.0.0.1", "--no-dashboard")
    scheduler = dask("scheduler", *loopback, "--port", "0", folder=folder)
    workers = [
        dask("worker", *loopback, "--no-nanny", "--nthreads", "1", folder=folder) for _ in range(WORKERS)
    ]
    try:
        until = time.monotonic() + 120
        while not (folder / "scheduler.json").exists():
            assert time.monotonic() < until, "no scheduler"
            time.sleep(0.1)
        with distributed.Client(
            scheduler_file=str(folder / "scheduler.json"), set_as_default=False
        ) as client:
            client.wait_for_workers(WORKERS, timeout=120)
            address = client.scheduler.address.replace("tcp://", "dask://")
        yield address, workers
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Dask are its own
def test_a_worker_of_dask_is_killed_in_mid_run(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, workers = cluster
    expected = report(tmp_path)
    monkeypatch.setattr(fleet, "TASK", 1)
    seen: list[int] = []

    def kill_one(done: int, _: int) -> None:
        if not seen:
            workers[0].kill()
        seen.append(done)

    assert report(tmp_path, address, kill_one) == expected
    assert len(seen) == len(TREE)
    assert workers[0].wait() < 0
    assert workers[1].poll() is None


@pytest.mark.slow
def test_no_scheduler_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(fleet, "PATIENCE", 1)
    with pytest.raises(UserError, match="no scheduler answers"):
        report(tmp_path, "dask://127.0.0.1:9")
