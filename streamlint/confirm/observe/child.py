"""Runs a program and traces it: ``python -m streamlint.confirm.observe.child REQUEST``.

``REQUEST`` is a JSON file: the program, its arguments, the root for paths, and where to write the result.
Needs nothing outside the standard library but what the program itself imports.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import pickle
import sys
import types
from pathlib import Path
from typing import Any, NoReturn

from streamlint.confirm.observe.observer import Observer


def main(request_path: str) -> None:
    """Run the program of a request as if Python had been started with it."""
    request: dict[str, Any] = json.loads(Path(request_path).read_text("utf-8"))
    observer = Observer(Path(request["root"]))
    result = Path(request["result"])
    owner = os.getpid()

    def save() -> None:
        if os.getpid() == owner:
            result.write_bytes(pickle.dumps(observer.take()))

    exit_at_once = os._exit

    def leave(status: int) -> NoReturn:
        save()
        exit_at_once(status)

    os._exit = leave
    observer.install()
    # Registered first, so that it runs last: what the program does at exit is seen too. The program's
    # own threads have ended by then.
    atexit.register(save)
    sys.argv = [request["program"], *request["arguments"]]
    if request["module"]:
        _run_module(request["program"])
    elif request["function"]:
        sys.path.insert(0, str(Path(request["program"]).parent))
        _run_function(Path(request["program"]), request["function"])
    else:
        sys.path.insert(0, str(Path(request["program"]).parent))
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
    main(sys.argv[1])
