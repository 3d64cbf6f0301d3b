"""Processes of the programs under test: their environment, and their end."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from streamlint.confirm.inside.seeds import ENVIRONMENT

_END_S: Final = 5.0


def tidy_environment(first: Path, *, lazy: bool = False) -> dict[str, str]:
    """The user's environment, without what would hide a missing order; ``first`` leads ``PYTHONPATH``.

    ``lazy``: where a serialized run, or a call before the run, has loaded everything before the first gate.
    """
    environment = dict(os.environ)
    # Would serialize every launch, in the gated run as well.
    environment.pop("CUDA_LAUNCH_BLOCKING", None)
    # Loading a kernel at its first use can wait for the device, and with it for the gate.
    environment.setdefault("CUDA_MODULE_LOADING", "LAZY" if lazy else "EAGER")
    for name, value in ENVIRONMENT.items():
        environment.setdefault(name, value)
    # With few hardware queues, streams that share one wait for each other.
    environment.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    # pytest reads test modules by itself in order to rewrite their assertions, past every other loader.
    options = environment.get("PYTEST_ADDOPTS", "")
    environment["PYTEST_ADDOPTS"] = f"{options} --assert=plain".strip()
    inherited = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([str(first), *([inherited] if inherited else [])])
    return environment


def end_all(mark: str) -> None:
    """Kill every process whose environment holds ``mark``: also those that left the program's session."""
    limit = time.monotonic() + _END_S
    while (found := _marked(mark.encode())) and time.monotonic() < limit:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _marked(mark: bytes) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found
