"""A Dask of two workers: nobody runs code of the tree, workers die, and the scheduler hangs and goes."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlint.errors import UserError
from streamlint.run import fleet
from streamlint.run.stop import Stopped
from tests.test_fleet import TREE, report
from tests.test_untrusted_tree import NAMES, hostile, started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.finding import Report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs Dask"),
    pytest.mark.filterwarnings("default"),  # those of Dask are its own
]
REPOSITORY = Path(__file__).parents[1]
PROGRAM = "from dask.__main__ import main\nif __name__ == '__main__':\n    main()\n"
"""What the ``dask`` command does; ``python -m`` would look for modules in the current folder."""


@dataclass
class Cluster:
    """Its processes are started in a tree that has modules named as those that they import."""

    tree: Path
    mark: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]
    address: str
    start: Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    from distributed import Client

    own, tree = tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("tree")
    mark, file = own / "mark", own / "scheduler.json"
    hostile(tree, NAMES, mark)
    (own / "dask_command.py").write_text(PROGRAM)
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "60s",
    }

    def dask(*words: str, **more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(own / "dask_command.py"), *words, "--scheduler-file", str(file)]
        options = ["--host", "127.0.0.1", "--no-dashboard"]
        variables = environment | more
        return subprocess.Popen([*command, *options], cwd=tree, env=variables, stderr=subprocess.DEVNULL)

    scheduler = dask("scheduler", "--port", "0")
    workers = [dask("worker", "--no-nanny", "--nthreads", "1") for _ in range(2)]
    try:
        until = time.monotonic() + 120
        while not file.exists():
            assert time.monotonic() < until, "no scheduler"
            time.sleep(0.1)
        with Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(len(workers), timeout=120)
            address = client.scheduler.address.replace("tcp://", "dask://")
        yield Cluster(tree, mark, scheduler, workers, address, dask)
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


def test_no_code_of_the_tree_runs(cluster: Cluster, tmp_path: Path) -> None:
    """Neither here nor there, where all are started in it."""
    command = [*started("command", tmp_path), ".", "--no-cache", "--output-format", "concise"]
    here, there = (
        subprocess.run(
            [*command, *options],
            cwd=cluster.tree,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            check=False,
        )
        for options in ([], ["--executor", cluster.address])
    )
    assert here.stdout.count("SL101") > 1
    assert there.stdout == here.stdout
    assert not cluster.mark.exists(), cluster.mark.read_text("utf-8")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has no safe path")
def test_a_worker_with_a_nanny_is_kept_from_the_folder_by_a_safe_path(cluster: Cluster) -> None:
    """As docs/ci.md says. Without the variable, the process that the nanny spawns imports from the tree."""
    from distributed import Client

    address = cluster.address.replace("dask://", "tcp://")
    nanny = cluster.start("worker", "--nthreads", "1", PYTHONSAFEPATH="1")
    try:
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(len(cluster.workers) + 1, timeout=120)
    finally:
        nanny.terminate()
        nanny.wait(60)
    assert not cluster.mark.exists(), cluster.mark.read_text("utf-8")


def reasons(found: Report) -> set[str]:
    assert [error.path for error in found.errors] == sorted(TREE)
    return {error.message.removeprefix("not analyzed by the executor: ") for error in found.errors}


def test_workers_are_killed_and_the_scheduler_hangs_and_goes(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker less changes nothing; without any, and without a scheduler, the rest is named.

    Nothing of the cluster is left then.
    """
    expected = report(tmp_path)
    monkeypatch.setattr(fleet, "TASK", 1)
    seen: list[int] = []

    def kill_one(done: int, _: int) -> None:
        if not seen:
            cluster.workers[0].kill()
        seen.append(done)

    assert report(tmp_path, cluster.address, kill_one) == expected
    assert len(seen) == len(TREE)
    assert cluster.workers[0].wait() < 0
    assert cluster.workers[1].poll() is None

    monkeypatch.setattr(fleet, "QUIET", 0.1)
    monkeypatch.setattr(fleet, "NOBODY", 0.5)
    cluster.workers[1].kill()
    cluster.workers[1].wait()
    assert reasons(report(tmp_path, cluster.address)) == {"there has been no worker for 0.5 s"}

    monkeypatch.setattr(fleet, "NOBODY", 60)
    look = fleet._workers

    def once_waiting(deed: Callable[[], object]) -> None:
        """Does it when tasks are given away and nothing comes."""

        def workers(of: fleet.Fleet) -> int:
            monkeypatch.setattr(fleet, "_workers", look)
            deed()
            return look(of)

        monkeypatch.setattr(fleet, "_workers", workers)

    came: list[float] = []

    def interrupt() -> None:
        came.append(time.monotonic())
        raise KeyboardInterrupt

    once_waiting(interrupt)
    with pytest.raises(Stopped):
        report(tmp_path, cluster.address)
    assert time.monotonic() - came[0] < 2

    monkeypatch.setattr(fleet, "PATIENCE", 3)
    once_waiting(lambda: cluster.scheduler.send_signal(signal.SIGSTOP))
    assert reasons(report(tmp_path, cluster.address)) == {
        "the scheduler does not answer any more: TimeoutError: no answer in 3 s"
    }
    cluster.scheduler.send_signal(signal.SIGCONT)

    once_waiting(cluster.scheduler.kill)
    (why,) = reasons(report(tmp_path, cluster.address))
    assert why.startswith(("the scheduler has lost it", "the scheduler does not answer any more"))


@pytest.mark.parametrize("way", ["nobody", "silence"])
def test_no_scheduler_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Nobody listens, or somebody who says nothing."""
    monkeypatch.setattr(fleet, "PATIENCE", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1] if way == "silence" else 9
        with pytest.raises(UserError, match="no scheduler answers"):
            report(tmp_path, f"dask://127.0.0.1:{port}")
