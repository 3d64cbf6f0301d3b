"""Observes functions of fixture files: ``python -m tests.observe_fixtures [--fake] [--jobs N] FILE...``.

With ``--fake`` a CUDA runtime without a GPU takes the place of the real one (``tests/fake_cuda.py``).
Prints one line of JSON a function. Each runs in a process of its own, forked when the libraries are
loaded and CUDA is untouched: some leave the device, or the process, in ruins, and some never end.
With ``--together`` those of a file share one, which is ten times faster; of what one of them ruins
there are no lines then. ``FILE::FUNCTION`` stands for one function.
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
    from collections.abc import Iterator

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


def run(path: Path, names: list[str], device: Device | None = None) -> Iterator[dict[str, Any]]:
    """Observe functions in this process, whose libraries are traced from now on."""
    observer = Observer(ROOT, device=device)
    observer.install()
    sys.path.insert(0, str(path.parent))
    for name in names:
        # The signal ends a process that waits in the driver, too: no handler has to run.
        signal.alarm(LONGEST_S)
        raised = ""
        try:
            getattr(importlib.import_module(path.stem), name)()
        except Exception as error:
            raised = f"{type(error).__name__}: {error}".splitlines()[0]
        yield row(path, name, observer.take(), raised)
        if name != names[-1]:
            _wait_for_the_device()
            observer.forget()


def _wait_for_the_device() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    elif "cuda.bindings.driver" in sys.modules:
        importlib.import_module("cuda.bindings.driver").cuCtxSynchronize()


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
    parser.add_argument("--together", action="store_true")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args(words)
    device = FakeDevice() if options.fake else None
    if device is not None:
        install(device)
    real = () if device is not None else ("cuda.bindings.runtime", "cuda.bindings.driver", "torch")
    for library in ("numpy", *real):
        with suppress(ImportError):
            importlib.import_module(library)
    with tempfile.TemporaryDirectory() as folder:
        running: dict[int, tuple[Path, list[str]]] = {}
        for file in options.files:
            name, _, function = file.partition("::")
            path = Path(name).resolve()
            names = [function] if function else cases(path)
            for some in [names] if options.together else [[one] for one in names]:
                if len(running) >= options.jobs:
                    _reap(running, folder)
                child = os.fork()
                if child == 0:
                    _child(path, some, device, Path(folder))
                running[child] = (path, some)
        while running:
            _reap(running, folder)


def _child(path: Path, names: list[str], device: Device | None, folder: Path) -> NoReturn:
    """Never returns."""
    status = 1
    try:
        with (folder / str(os.getpid())).open("w") as file:
            for line in run(path, names, device):
                print(json.dumps(line), file=file, flush=True)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _reap(running: dict[int, tuple[Path, list[str]]], folder: str) -> None:
    """Wait for a child, and print its lines."""
    child, status = os.wait()
    path, names = running.pop(child)
    kept = Path(folder, str(child))
    print(kept.read_text() if kept.exists() else "", end="", flush=True)
    if status and len(names) == 1:
        ended = {"file": f"{path.parent.name}/{path.name}", "function": names[0], "ended": status}
        print(json.dumps(ended), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
