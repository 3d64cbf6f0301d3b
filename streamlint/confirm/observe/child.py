"""Runs a program and traces it: ``python -m streamlint.confirm.observe.child REQUEST [SCRIPT ARGS]``.

``REQUEST`` is a JSON file: the program, its arguments, the root for paths, and where to write results.
With a script it is one that the program has started with Python.
Needs nothing outside the standard library but what the program itself imports.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamlint.confirm.observe.children import begin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.confirm.observe.observer import Observer


def main(request_path: str, started: Sequence[str]) -> None:
    """Run the program of a request as if Python had been started with it."""
    request: dict[str, Any] = json.loads(Path(request_path).read_text("utf-8"))
    observer = begin(request)
    if started:
        request |= {"program": started[0], "arguments": started[1:], "module": False, "function": ""}
    sys.argv = [request["program"], *request["arguments"]]
    if request["module"]:
        _run_module(request["program"])
    elif request["function"]:
        sys.path.insert(0, str(Path(request["program"]).parent))
        _run_function(Path(request["program"]), request["function"])
    else:
        sys.path.insert(0, str(Path(request["program"]).absolute().parent))
        _run(observer, request["program"])


def _run(observer: Observer, path: str) -> None:
    main_module = types.ModuleType("__main__")
    main_module.__dict__.update(__file__=path, __builtins__=__builtins__)
    sys.modules["__main__"] = main_module
    code = observer.compile(Path(path).read_bytes(), path)
    exec(code, main_module.__dict__)  # noqa: S102


def _run_module(name: str) -> None:
    import runpy

    sys.path.insert(0, os.getcwd())  # noqa: PTH109
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_function(path: Path, function: str) -> None:
    found: Any = importlib.import_module(path.stem)
    for part in function.split("."):
        found = getattr(found, part)
    found()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
