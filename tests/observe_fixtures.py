"""Observes functions of fixture files: ``python -m tests.observe_fixtures [--fake] [--jobs N] FILE...``.

With ``--fake`` a CUDA runtime without a GPU takes the place of the real one (``tests/fake_cuda.py``).
Prints one line of JSON a function. Each runs in a process of its own, forked when the libraries are
loaded and CUDA is untouched: some leave the device, or the process, in ruins, and some never end.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from streamlint.confirm.observe.observer import Observer
from tests.expectations import functions
from tests.fake_cuda import FakeDevice, install

if TYPE_CHECKING:
    from streamlint.confirm.observe.device import Device
    from streamlint.confirm.observe.observer import Observed

LONGEST_S = 60
"""After which a function is ended: it waits for itself."""

ROOT = Path(__file__).parent.parent


def cases(path: Path) -> list[str]:
    """The ``_bad`` and ``_ok`` functions of a file that take no arguments."""
    source = path.read_text("utf-8")
    defined = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    return [
        name
        for name in functions(source)
        if name.endswith(("_bad", "_ok")) and name in defined and not defined[name].args.args
    ]


def run(path: Path, name: str, device: Device | None = None) -> dict[str, Any]:
    """Observe one function in this process, whose libraries are traced from now on."""
    observer = Observer(ROOT, device=device)
    observer.install()
    sys.path.insert(0, str(path.parent))
    raised = ""
    try:
        getattr(importlib.import_module(path.stem), name)()
    except Exception as error:
        raised = f"{type(error).__name__}: {error}".splitlines()[0]
    return row(path, name, observer.take(), raised)


def row(path: Path, name: str, observed: Observed, raised: str) -> dict[str, Any]:
    """What is printed of one function."""
    findings = [
        {
            "code": finding.code,
            "line": finding.primary.line,
            "earlier": finding.earlier.line if finding.earlier is not None else None,
            "confidence": finding.confidence.value,
            "follows": bool(finding.follows),
            "message": finding.message,
        }
        for finding in observed.findings
    ]
    return {
        "file": f"{path.parent.name}/{path.name}",
        "function": name,
        "raised": raised,
        "events": observed.events,
        "findings": findings,
    }


def main(words: list[str]) -> None:
    """Fork for each function, and print what its process has to say, or how it ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fake", action="store_true")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args(words)
    device = FakeDevice() if options.fake else None
    if device is not None:
        install(device)
    real = () if device is not None else ("cuda.bindings.runtime", "cuda.bindings.driver", "torch")
    for library in ("numpy", *real):
        with suppress(ImportError):
            importlib.import_module(library)
    with tempfile.TemporaryDirectory() as folder:
        running: dict[int, tuple[Path, str]] = {}
        for path in [file.resolve() for file in options.files]:
            for name in cases(path):
                if len(running) >= options.jobs:
                    _reap(running, folder)
                child = os.fork()
                if child == 0:
                    _child(path, name, device, Path(folder))
                running[child] = (path, name)
        while running:
            _reap(running, folder)


def _child(path: Path, name: str, device: Device | None, folder: Path) -> NoReturn:
    """Never returns."""
    # The signal ends a process that waits in the driver, too: no handler has to run.
    signal.alarm(LONGEST_S)
    status = 1
    try:
        (folder / str(os.getpid())).write_text(json.dumps(run(path, name, device)))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _reap(running: dict[int, tuple[Path, str]], folder: str) -> None:
    """Wait for a child, and print its line."""
    child, status = os.wait()
    path, name = running.pop(child)
    ended = {"file": f"{path.parent.name}/{path.name}", "function": name, "ended": status}
    print(json.dumps(ended) if status else Path(folder, str(child)).read_text(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
