"""Ctrl-C and SIGTERM: the run ends at once, with what was found so far, and says that this is not all."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if sys.platform == "win32":
    pytest.skip("signals and terminals are those of POSIX", allow_module_level=True)

import pty
import select

if TYPE_CHECKING:
    from collections.abc import Iterator

WORK = Path(__file__).parent.parent / "fixtures" / "cuda_runtime" / "sl201_host_read_before_sync.py"
SOON = 5.0
"""Seconds in which a run ends: it takes a tenth of that, but this machine may be busy."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough to be stopped in the middle of: a minute of work, a tenth of a second each file."""
    root = tmp_path_factory.mktemp("much")
    (root / "pyproject.toml").touch()
    for number in range(500):
        shutil.copy(WORK, root / f"work{number}.py")
    return root


class Run:
    """A run with standard error on a terminal of its own."""

    def __init__(self, tree: Path, *options: str) -> None:
        self._ours, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "streamlint", "check", str(tree), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=terminal,
            # A shell without job control starts what is in the background with the signal ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        os.close(terminal)
        self.seen = ""

    def until(self, pattern: str) -> None:
        """Read the terminal until it shows something."""
        end = time.monotonic() + 120
        while not re.search(pattern, self.seen):
            assert select.select([self._ours], [], [], end - time.monotonic())[0], self.seen
            self.seen += os.read(self._ours, 4096).decode()

    def send(self, number: int) -> tuple[float, int, str]:
        """The seconds that it takes after a signal, the status, and what is printed."""
        start = time.monotonic()
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=120)
        seconds = time.monotonic() - start
        with suppress(OSError):  # the end of a terminal that nobody has open
            while select.select([self._ours], [], [], 0)[0]:
                self.seen += os.read(self._ours, 4096).decode()
        return seconds, self.process.returncode, out.decode()

    def workers(self) -> list[int]:
        """The processes that this one has started."""
        ours = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended
                parent = stat.read_text("utf-8", errors="replace").rpartition(")")[2].split()[1]
                ours += [int(stat.parent.name)] if int(parent) == self.process.pid else []
        return ours

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self._ours)


@pytest.fixture
def begun(tree: Path, request: pytest.FixtureRequest) -> Iterator[Run]:
    run = Run(tree, *request.param)
    try:
        run.until(r"[1-9]\d* of 500 files, \d+ s")
        yield run
    finally:
        run.close()


JSON = ("--output-format", "json", "--min-confidence", "possible")


@pytest.mark.parametrize(
    ("begun", "number"),
    [
        (("--jobs", "2", *JSON), signal.SIGINT),
        (("--jobs", "1", *JSON), signal.SIGINT),
        (("--jobs", "2", *JSON), signal.SIGTERM),
    ],
    indirect=["begun"],
)
def test_a_signal_ends_a_run_with_what_was_found(begun: Run, number: signal.Signals) -> None:
    workers = begun.workers()
    seconds, status, out = begun.send(number)
    assert status == 128 + number
    assert seconds < SOON
    shown = json.loads(out)
    summary = shown["summary"]
    assert summary["stopped"]["signal"] == number.name
    assert 0 < summary["stopped"]["files"] < summary["files"]
    assert summary["findings"] == len(shown["findings"]) > 0
    assert f"stopped by {number.name} after" in shown["errors"][-1]["message"]
    assert f"streamlint: error: stopped by {number.name} after" in begun.seen
    assert "Traceback" not in begun.seen
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


@pytest.mark.parametrize("begun", [("--jobs", "2", *JSON)], indirect=True)
def test_a_second_signal_soon_after_loses_nothing(begun: Run) -> None:
    begun.process.send_signal(signal.SIGINT)
    time.sleep(0.02)
    _, status, out = begun.send(signal.SIGINT)
    assert status == 130
    assert json.loads(out)["summary"]["stopped"]["files"] > 0
    assert "Traceback" not in begun.seen


def test_a_signal_inside_of_generated_code_leaves_the_exit_status(tmp_path: Path) -> None:
    """Python then takes it for the end of the process, though it was handled."""
    (tmp_path / "sitecustomize.py").write_text(
        "from streamlint import cli\n"
        "def interrupted():\n"
        "    try:\n"
        "        exec('raise KeyboardInterrupt')\n"
        "    except KeyboardInterrupt:\n"
        "        return 130\n"
        "cli.main = interrupted\n",
        "utf-8",
    )
    path = [str(tmp_path), *(entry for entry in sys.path if entry)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run([sys.executable, "-m", "streamlint"], env=environment, check=False)
    assert done.returncode == 130
