"""The fixtures' labels against a GPU: every ``_bad`` function goes wrong, and no ``_ok`` twin does.

In every function, each statement that queues work is held back in turn. That needs no analysis, so
it judges the labels and not the rules. Set ``STREAMLINT_CONFIRM_REPORT`` to a file to keep what
was seen (docs/confirmations.md is made of it).
"""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamlint.confirm import report
from streamlint.confirm.driver import Driver, DriverUnavailableError
from streamlint.confirm.plan import Program, Target, of_each_statement
from streamlint.confirm.runner import Confirmation, Limits, confirm_all
from streamlint.confirm.verdict import Verdict
from tests.expectations import FIXTURES, functions, parse, rule_of

ROOT = FIXTURES.parent.parent
FRAMEWORKS = ("cuda_runtime", "torch", "cuda_driver", "cuda_core")
SHOWN_BY_VALUE = frozenset({"SL101", "SL102", "SL103", "SL104", "SL201", "SL202", "SL204", "SL301", "SL601"})
"""Rules whose findings change a returned value, or fail in a callback, on one GPU."""


@dataclass(frozen=True)
class Case:
    path: Path
    function: str
    bad: bool

    def __str__(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}::{self.function}"


def _cases() -> list[Case]:
    files = [path for name in FRAMEWORKS for path in sorted((FIXTURES / name).glob("*.py"))]
    return [case for path in files for case in _of_file(path)]


def _of_file(path: Path) -> list[Case]:
    if rule_of(path) not in SHOWN_BY_VALUE:
        return []
    source = path.read_text("utf-8")
    program = Program(path)
    expected = {e.line for e in parse(source) if e.code in SHOWN_BY_VALUE}
    cases = []
    for name in functions(source):
        if not program.runnable(name) or not name.endswith(("_bad", "_ok")):
            continue
        reachable = _lines(source, name)
        if name.endswith("_bad") and not reachable & expected:
            continue
        cases.append(Case(path, name, name.endswith("_bad")))
    return cases


def _lines(source: str, name: str) -> set[int]:
    """The lines of a function and of the functions and classes of its file that it names."""
    defined = {
        node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    lines: set[int] = set()
    seen: set[str] = set()
    todo = [name]
    while todo:
        node = defined.get(todo.pop())
        if node is None or node.name in seen:
            continue
        seen.add(node.name)
        lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        todo += [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)]
    return lines


CASES = _cases()


BATCH = 64
"""Cases run together: starting the processes takes longer than most of what they run."""


class Machine:
    """Runs a batch of the selected cases when the first of them is asked for."""

    def __init__(self, selected: list[Case]) -> None:
        self._selected = selected
        self._done: dict[Case, list[Confirmation]] = {}

    def confirmations(self, case: Case) -> list[Confirmation]:
        if case not in self._done:
            start = self._selected.index(case)
            self._run(self._selected[start : start + BATCH])
            self._keep()
        return self._done[case]

    def _run(self, cases: list[Case]) -> None:
        plans = [p for case in cases for p in of_each_statement(Target(case.path, case.function), ROOT)]
        jobs = max(1, (os.cpu_count() or 1) // 2)
        done = confirm_all(plans, Limits(timeout_s=30, shared=True), jobs)
        for case in cases:
            self._done[case] = [
                c for c in done if c.plan.path == case.path and c.plan.function == case.function
            ]

    def _keep(self) -> None:
        kept = os.environ.get("STREAMLINT_CONFIRM_REPORT")
        if kept:
            every = [c for case in self._selected for c in self._done.get(case, ())]
            Path(kept).write_text(report.as_json(every), "utf-8")


@pytest.fixture(scope="session")
def machine(request: pytest.FixtureRequest) -> Machine:
    try:
        Driver()
    except DriverUnavailableError as error:
        pytest.skip(str(error))
    pytest.importorskip("torch")
    pytest.importorskip("cuda.bindings.runtime")
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    selected = [item.callspec.params.get("case") for item in items if hasattr(item, "callspec")]
    return Machine([case for case in selected if isinstance(case, Case)])


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=str)
def test_label_is_right(case: Case, machine: Machine) -> None:
    shown = machine.confirmations(case)
    account = report.text(shown)
    verdicts = {confirmation.decision.verdict for confirmation in shown}
    assert Verdict.NOT_RUN not in verdicts, account
    assert Verdict.NOISY not in verdicts, account
    assert (Verdict.CONFIRMED in verdicts) == case.bad, account
