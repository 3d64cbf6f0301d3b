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
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from streamlint.confirm.gpu.driver import Driver, DriverUnavailableError
from tests.expectations import FIXTURES, Kind, needs_a_group, needs_two_gpus, parse, rule_of
from tests.observe_fixtures import cases

ROOT = FIXTURES.parent

NOT_OBSERVED = {
    "SL105": "needs two GPUs",
    "SL106": "needs two GPUs",
    "SL303": "the lifetimes of Python objects are not followed",
    "SL601": "another library is loaded, whose order is not seen: such findings are possible only",
    "SL901": "advice",
    "SL902": "advice",
    "SL903": "advice",
    "SL904": "advice",
    "SL905": "advice",
}
"""Rules whose fixtures say nothing here."""

WITH_ONE_RANK = ("copies_aside_bad", "copies_aside_ok", "refilled_bad", "refilled_ok")
"""They send to rank 0 and receive from it: in a group of two the other rank would wait for ever."""
NEVER_SENT = ("receives_bad", "receives_ok")

OBSERVED_AS = {
    "SL104": frozenset({"SL101", "SL102"}),
    "SL504": frozenset({"SL101", "SL102", "SL201", "SL202", "SL401"}),
    "SL602": frozenset({"SL101", "SL102"}),
}
"""What a graph uses is observed when it is replayed, as that of any other work is; and what a collective
uses, on the stream of its group."""

_LAUNCHED = "what a graph that cuda-python launches uses is not known"
_IN_ORDER = "who gets the memory is in order with the replay"
_HANDED_BACK = "the memory is handed back, and nothing else gets it in the run"
NOT_SEEN = {
    "torch/sl301_cuda_call_in_host_callback.py": "PyTorch calls in threads of the driver are not traced",
    "torch/sl504_graph_buffer_race.py::dropped_bad": _HANDED_BACK,
    "torch/sl504_graph_buffer_race.py::rebound_bad": _HANDED_BACK,
    "torch/sl504_graph_buffer_race.py::shared_pool_bad": "graphs that share a pool have blocks of their own",
    "cuda_runtime/sl302_blocking_host_callback.py": "the callback waits for a lock of its own",
    "cuda_runtime/sl504_graph_buffer_race.py": _LAUNCHED,
    "cuda_driver/sl504_graph_buffer_race.py": _LAUNCHED,
    "cuda_driver/sl101_kernel_arguments.py::packed_bad": "addresses in memory are not followed",
    "torch/sl101_module_state.py::replaced_bad": _HANDED_BACK,
    "torch/sl401_grown.py::rounds_bad": _HANDED_BACK,
    "torch/sl504_kept_with_the_graph.py::kept_in_a_copy_bad": _HANDED_BACK,
    "torch/sl504_kept_with_the_graph.py::fields_held_bad": _HANDED_BACK,
    "torch/sl504_kept_with_the_graph.py::kept_by_a_generator_bad": _IN_ORDER,
    "torch/sl401_of_size_zero.py::zeros_for_a_result_bad": "memory that an operator makes for its `out`",
    "torch/sl101_prepared_calls.py::offload_bad": "who had the memory before is done with it in the run",
    "torch/sl201_threads.py::submitted_bad": "`torch.save` reads a page without an operator",
}
"""Functions, or all of a file, whose bug is not observed, and why. Nothing wrong must be shown there."""
LATER = {
    "torch/sl101_autograd_functions.py::product_bad": 1,  # the gradient is taken over unread
    "torch/sl101_given_back.py::contiguous_either_way_bad": 1,  # what is contiguous comes back unread
    "torch/sl401_after_backward.py::trained_bad": 1,  # the backward pass uses the memory last
    "torch/sl401_after_backward.py::by_layer_bad": 1,
}
"""By how many lines what really happens is behind the statement that the source shows."""

CRASHES = {
    "cuda_runtime/sl203_host_access_to_device_memory.py": "the host reads device memory",
    "cuda_runtime/sl302_blocking_host_callback.py": "a callback waits for ever",
    "cuda_runtime/sl303_callback_not_kept_alive.py": "a callback is called that is gone",
    "cuda_driver/sl303_callback_not_kept_alive.py": "a callback is called that is gone",
    "cuda_runtime/sl404_used_after_destroy.py": "a destroyed handle is used",
}
"""Files whose ``_bad`` functions may end their process before anything can be judged."""


def _files(framework: str) -> list[Path]:
    every = sorted((FIXTURES / framework).glob("*.py"))
    return [path for path in every if rule_of(path) not in NOT_OBSERVED and not needs_a_group(path)]


def _observed(functions: list[str], *options: str) -> dict[str, dict[str, Any]]:
    """A row for each function, by its name; as many run at the same time as there are processors."""
    jobs = ("--jobs", str(os.cpu_count() or 1))
    command = [sys.executable, "-m", "tests.observe_fixtures", *jobs, *options, *functions]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=900, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"file"')]
    return {f"{FIXTURES / row['file']}::{row['function']}": row for row in rows}


def _functions(files: list[Path]) -> list[str]:
    return [f"{path}::{name}" for path in files for name in cases(path)]


def _complaints(row: dict[str, Any]) -> list[str]:
    """What is wrong with what was observed of a function."""
    path = FIXTURES / row["file"]
    name = f"{row['file']}::{row['function']}"
    if "ended" in row:
        return [] if row["file"] in CRASHES else [f"{name} ended with status {row['ended']}"]
    wanted, elsewhere = _expected(path, row["function"])
    sure = [f for f in row["findings"] if f["confidence"] != "possible"]
    places = {(f["line"] - LATER.get(name, 0), f["code"]) for f in sure} if name in LATER else set()
    found = places | {place for f in sure for place in _expectations_met(f, wanted | elsewhere)}
    missing = wanted - found
    if row["function"].endswith("_bad") and not wanted and elsewhere and not found & elsewhere:
        # The mistake is in a helper; which of them are called is not asked.
        missing = elsewhere
    if {row["file"], name} & set(NOT_SEEN) or (row["raised"] and wanted & found):
        # Else the first mistake ended the function, as it should.
        missing = set()
    complaints = [f"{name}:{line}: {code} was not observed {row['raised']}" for line, code in sorted(missing)]
    allowed = wanted | elsewhere | _possible(path, row["function"])
    extra = [f for f in sure if not f["follows"] and not _expectations_met(f, allowed) and name not in LATER]
    return complaints + [f"{name}:{f['line']}: {f['code']} was observed" for f in extra]


def _expectations_met(finding: dict[str, Any], expected: set[tuple[int, str]]) -> set[tuple[int, str]]:
    """The places and codes under which a finding is expected: a race is one of two statements."""
    codes = {code for code, shown in OBSERVED_AS.items() if finding["code"] in shown} | {finding["code"]}
    return {(line, code) for line in (finding["line"], finding["earlier"]) for code in codes} & expected


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


def _possible(path: Path, function: str) -> set[tuple[int, str]]:
    """A run may show what the source of a wrong function only makes possible, and known misses."""
    expected = parse(path.read_text("utf-8")) if function.endswith("_bad") else []
    return {(one.line, one.code) for one in expected if one.kind in (Kind.POSSIBLE, Kind.TODO_ERROR)}


def test_the_runtime_fixtures_without_a_gpu() -> None:
    pytest.importorskip("numpy")
    # What ctypes loads by itself has no stand-in.
    wanted = _functions(
        [path for path in _files("cuda_runtime") if "cuda.bindings" in path.read_text("utf-8")]
    )
    rows = _observed(wanted, "--fake")
    assert set(rows) == set(wanted)
    # Some files need another library beside the runtime.
    run = [row for row in rows.values() if "ModuleNotFoundError" not in row.get("raised", "")]
    assert len(run) > 100
    assert [text for row in run for text in _complaints(row)] == []


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("framework", ["cuda_runtime", "cuda_driver", "torch"])
def test_the_fixtures_on_a_gpu(framework: str) -> None:
    pytest.importorskip("cuda.bindings.runtime")
    pytest.importorskip(framework if framework == "torch" else "numpy")
    try:
        gpus = Driver().device_count()
    except DriverUnavailableError as error:
        pytest.skip(str(error))
    files = [path for path in _files(framework) if gpus > 1 or not needs_two_gpus(path)]
    rows = _observed([str(path) for path in files], "--together")
    # What an earlier function of the file may have spoilt runs alone.
    rows |= _observed([name for name in _functions(files) if name not in rows or _complaints(rows[name])])
    assert set(rows) == set(_functions(files))
    report = os.environ.get("STREAMLINT_OBSERVE_REPORT")
    if report:
        with Path(report).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows.values())
    assert [text for row in rows.values() for text in _complaints(row)] == []


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_process_group(ranks: int) -> None:
    pytest.importorskip("torch")
    try:
        gpus = Driver().device_count()
    except DriverUnavailableError as error:
        pytest.skip(str(error))
    if gpus < ranks:
        pytest.skip("needs two GPUs")
    files = [path for path in sorted((FIXTURES / "torch").glob("*.py")) if needs_a_group(path)]
    functions = [one for one in _functions(files) if _is_for(ranks, one.partition("::")[2])]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command = [*torchrun, "-m", "tests.observe_group", *functions]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=300, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"file"')]
    assert Counter(f"{FIXTURES / row['file']}::{row['function']}" for row in rows) == Counter(
        functions * ranks
    )
    assert [text for row in rows for text in _complaints(row)] == []


def _is_for(ranks: int, name: str) -> bool:
    return name not in NEVER_SENT and (name in WITH_ONE_RANK) == (ranks == 1)
