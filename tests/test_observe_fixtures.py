"""What is observed of each fixture function: the bug of every ``_bad`` one, and nothing of its ``_ok`` twin.

Without a GPU the functions that use the CUDA runtime run against a fake one: the tracer sees the same
calls. With a GPU (tests marked ``gpu``) all run against the real libraries.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from streamlint.confirm.driver import Driver, DriverUnavailableError
from tests.expectations import FIXTURES, Kind, parse, rule_of
from tests.observe_fixtures import cases

ROOT = FIXTURES.parent.parent

NOT_OBSERVED = {
    "SL105": "needs two GPUs",
    "SL106": "needs two GPUs",
    "SL602": "needs a process group",
    "SL901": "advice",
    "SL902": "advice",
    "SL903": "advice",
    "SL904": "advice",
    "SL905": "advice",
}
"""Rules whose fixtures say nothing here."""

NOT_SEEN = {
    "torch/sl301_cuda_call_in_host_callback.py": "PyTorch calls in threads of the driver are not traced",
}
CRASHES = {
    "cuda_runtime/sl203_host_access_to_device_memory.py": "the host reads device memory",
    "cuda_runtime/sl404_used_after_destroy.py": "a destroyed handle is used",
}
"""Files whose ``_bad`` functions may end their process before anything can be judged."""


def _files(framework: str) -> list[Path]:
    return [p for p in sorted((FIXTURES / framework).glob("*.py")) if rule_of(p) not in NOT_OBSERVED]


def _observed(files: list[Path], *options: str) -> list[dict[str, Any]]:
    """One row a function; as many run at the same time as there are processors."""
    jobs = ("--jobs", str(os.cpu_count() or 1))
    command = [sys.executable, "-m", "tests.observe_fixtures", *jobs, *options, *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"file"')]
    wanted = {(f"{path.parent.name}/{path.name}", name) for path in files for name in cases(path)}
    assert {(row["file"], row["function"]) for row in rows} == wanted, done.stderr
    return rows


def _complaints(row: dict[str, Any]) -> list[str]:
    """What is wrong with what was observed of a function."""
    path = FIXTURES / row["file"]
    name = f"{row['file']}::{row['function']}"
    if "ended" in row:
        return [] if row["file"] in CRASHES else [f"{name} ended with status {row['ended']}"]
    wanted, elsewhere = _expected(path, row["function"])
    found = {(f["line"], f["code"]) for f in row["findings"] if f["confidence"] != "possible"}
    shown = {
        (f["line"], f["code"]) for f in row["findings"] if f["confidence"] != "possible" and not f["follows"]
    }
    missing = wanted - found
    if row["raised"] and wanted & found:
        # The first mistake ended the function, as it should.
        missing = set()
    complaints = [f"{name}:{line}: {code} was not observed {row['raised']}" for line, code in sorted(missing)]
    extra = shown - wanted - elsewhere
    return complaints + [f"{name}:{line}: {code} was observed" for line, code in sorted(extra)]


@cache
def _expected(path: Path, function: str) -> tuple[set[tuple[int, str]], set[tuple[int, str]]]:
    """The findings that a file expects in a function, and in its helpers."""
    source = path.read_text("utf-8")
    errors = {(e.line, e.code) for e in parse(source) if e.kind is Kind.ERROR and e.code not in NOT_OBSERVED}
    spans = {
        node.name: range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
    }
    tested = [span for name, span in spans.items() if name in cases(path)]
    own = {error for error in errors if error[0] in spans[function]}
    return own, {error for error in errors if not any(error[0] in span for span in tested)}


def test_the_runtime_fixtures_without_a_gpu() -> None:
    pytest.importorskip("numpy")
    rows = _observed(_files("cuda_runtime"), "--fake")
    assert len(rows) > 100
    assert [text for row in rows for text in _complaints(row)] == []


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("framework", ["cuda_runtime", "cuda_driver", "torch"])
def test_the_fixtures_on_a_gpu(framework: str) -> None:
    pytest.importorskip("cuda.bindings.runtime")
    pytest.importorskip(framework if framework == "torch" else "numpy")
    try:
        Driver()
    except DriverUnavailableError as error:
        pytest.skip(str(error))
    rows = [row for row in _observed(_files(framework)) if row["file"] not in NOT_SEEN]
    report = os.environ.get("STREAMLINT_OBSERVE_REPORT")
    if report:
        with Path(report).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    assert [text for row in rows for text in _complaints(row)] == []
