"""Where the work is done does not change what is found: executors of Python, good ones and others."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlint.errors import UserError
from streamlint.run import engine, fleet
from streamlint.run.fleet import Fleet
from streamlint.run.results import FileResult, Settings
from streamlint.run.stop import Stopped
from tests.test_processes import BASE, DERIVED
from tests.test_tree import written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.finding import Report

TREE = {"base.py": BASE, "broken.py": "def (", **{f"late{n}.py": DERIVED for n in range(3)}}


def report(root: Path, executor: str = "", progress: Callable[[int, int], None] | None = None) -> Report:
    files = written(root, TREE)
    return engine.analyze(root, files, Settings(evidence=False, executor=executor), progress=progress)


def use(monkeypatch: pytest.MonkeyPatch, executor: Executor, workers: Callable[[], int] = lambda: 1) -> None:
    """Tasks of one file each, in this executor."""

    @contextmanager
    def connected(_: str) -> Iterator[Fleet]:
        with executor:
            yield Fleet(executor, workers)

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


class Silent(ThreadPoolExecutor):
    """Takes tasks, and gives them no end."""

    def submit(self, *_: object, **__: object) -> Future[object]:  # type: ignore[override]
        return Future()


def test_where_there_is_no_worker_any_more_the_rest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "QUIET", 0.02)
    monkeypatch.setattr(fleet, "NOBODY", 0.1)
    use(monkeypatch, Silent(), lambda: 0)
    found = report(tmp_path, "silent")
    assert [error.path for error in found.errors] == sorted(TREE)
    assert all("there has been no worker for 0.1 s" in error.message for error in found.errors)


def test_where_the_scheduler_answers_no_more_the_rest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs() -> int:
        return fleet._within(0.05, lambda: threading.Event().wait(60))

    monkeypatch.setattr(fleet, "QUIET", 0.02)
    use(monkeypatch, Silent(), hangs)
    found = report(tmp_path, "silent")
    assert [error.path for error in found.errors] == sorted(TREE)
    assert all("the scheduler does not answer any more" in error.message for error in found.errors)


def test_ctrl_c_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what has come so far."""

    class HalfSilent(Silent):
        def submit(self, *task: object, **__: object) -> Future[object]:  # type: ignore[override]
            done: Future[object] = Future()
            if any(path.name == "base.py" for path in task[-1]):  # type: ignore[attr-defined]
                done.set_result(fleet._do(*task[1:]))  # type: ignore[arg-type]
            return done

    came: list[float] = []

    def interrupt() -> None:
        came.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    use(monkeypatch, HalfSilent())
    # Shells start background jobs with the signal ignored, and pytest may be one.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Stopped) as stopped:
            report(tmp_path, "half silent", lambda *_: threading.Timer(0.1, interrupt).start())
    finally:
        signal.signal(signal.SIGINT, usual)
    assert time.monotonic() - came[0] < 1
    assert [path.name for path in stopped.value.done] == ["base.py"]
    assert stopped.value.report.analyzed == 1


@pytest.mark.parametrize("junk", ["nothing", "a list", "other paths", "other answers", "cancelled"])
def test_what_comes_back_and_is_no_result_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, junk: str
) -> None:
    def foreign(_: str, __: object, paths: list[Path]) -> object:
        if junk == "cancelled":
            raise CancelledError
        return {
            "nothing": None,
            "a list": [(path, FileResult()) for path in paths],
            "other paths": {Path("/etc/passwd"): FileResult()},
            "other answers": dict.fromkeys(paths, 7),
        }[junk]

    use(monkeypatch, ThreadPoolExecutor(1))
    monkeypatch.setattr(fleet, "_do", foreign)
    found = report(tmp_path, "foreign")
    assert [error.path for error in found.errors] == sorted(TREE)
    wanted = "the scheduler has lost it" if junk == "cancelled" else "what came back is no result"
    assert all(wanted in error.message for error in found.errors)


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
