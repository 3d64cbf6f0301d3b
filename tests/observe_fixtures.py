"""Observes each function of a fixture file: ``python -m tests.observe_fixtures FILE``, one JSON line a function.

A process of its own, because the tracers change the libraries that they trace.
"""

from __future__ import annotations

import ast
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from streamlint.confirm.observe.observer import Observer
from tests.expectations import functions

ROOT = Path(__file__).parent.parent


def observe(path: Path, observer: Observer) -> list[dict[str, Any]]:
    """What each ``_bad`` and ``_ok`` function of the file was seen to do, in order."""
    sys.path.insert(0, str(path.parent))
    module = importlib.import_module(path.stem)
    rows = []
    for name in functions(path.read_text("utf-8")):
        if not name.endswith(("_bad", "_ok")) or _takes_arguments(path, name):
            continue
        _synchronize()
        observer.forget()
        raised = ""
        try:
            getattr(module, name)()
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
        _synchronize()
        observed = observer.take()
        rows.append(
            {
                "file": f"{path.parent.name}/{path.name}",
                "function": name,
                "raised": raised[:300],
                "events": observed.events,
                "findings": [
                    {
                        "code": finding.code,
                        "line": finding.primary.line,
                        "earlier": finding.earlier.line if finding.earlier is not None else None,
                        "confidence": finding.confidence.value,
                        "follows": bool(finding.follows),
                        "message": finding.message,
                    }
                    for finding in observed.findings
                ],
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def _takes_arguments(path: Path, name: str) -> bool:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return bool(node.args.args)
    return True


def _synchronize() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    runtime = sys.modules.get("cuda.bindings.runtime")
    if runtime is not None:
        runtime.cudaDeviceSynchronize()


if __name__ == "__main__":
    tracer = Observer(ROOT)
    tracer.install()
    observe(Path(sys.argv[1]).resolve(), tracer)
