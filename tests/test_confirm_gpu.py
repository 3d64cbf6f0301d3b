"""The fixtures against a GPU: every ``_bad`` function goes wrong, and no ``_ok`` twin does.

A wrong function is run as ``streamlint confirm`` runs it: by its findings. In a right one, which has
none, each statement that queues work is held back in turn; so it is in a wrong one whose bug the
analyzer is known to miss. What is looked for is the witness that the rule of the file declares.

    STREAMLINT_CONFIRM_REPORT=report.json python -m pytest tests/test_confirm_gpu.py

keeps what was seen, and ``python -m tests.confirm_table report.json`` prints it as tables.
"""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlint.confirm.gpu.driver import Driver, DriverUnavailableError
from streamlint.confirm.plan.functions import Program
from streamlint.confirm.plan.plans import Plan, Target, of_each_statement, of_findings, witness_of
from streamlint.confirm.report import text as report
from streamlint.confirm.run.runner import Confirmation, confirm_all
from streamlint.confirm.run.server import Limits
from streamlint.confirm.verdict import Verdict
from streamlint.finding import leading
from streamlint.run.engine import Settings, analyze
from streamlint.witness import UNDECLARED, ByDeadlock, ByError, ByTime, NoWitness
from tests.expectations import FIXTURES, functions, needs_a_group, needs_two_gpus, parse, rule_of

if TYPE_CHECKING:
    from streamlint.finding import Finding
    from streamlint.witness import Witness

ROOT = FIXTURES.parent
LIBRARIES = {
    "torch": "torch",
    "cuda_runtime": "cuda.bindings.runtime",
    "cuda_driver": "cuda.bindings.driver",
    "cuda_core": "cuda.core",
    "cupy": "cupy",
    "numba": "numba.cuda",
    "warp": "warp",
}
"""What the fixtures of a folder import; without it they are skipped."""


@dataclass(frozen=True)
class Case:
    path: Path
    function: str
    bad: bool

    def __str__(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}::{self.function}"

    @property
    def witness(self) -> Witness:
        return witness_of(rule_of(self.path))


def _cases() -> list[Case]:
    files = [path for name in LIBRARIES for path in sorted((FIXTURES / name).glob("*.py"))]
    return [case for path in files for case in _of_file(path)]


def _of_file(path: Path) -> list[Case]:
    if isinstance(witness_of(rule_of(path)), NoWitness):
        return []
    source = path.read_text("utf-8")
    program = Program(path)
    expected = {e.line for e in parse(source) if not isinstance(witness_of(e.code), NoWitness)}
    cases = []
    for name in functions(source):
        if not program.runnable(name) or not name.endswith(("_bad", "_ok")):
            continue
        reachable = lines_of(source, name)
        if name.endswith("_bad") and not reachable & expected:
            continue
        if name.endswith("_ok") and isinstance(witness_of(rule_of(path)), ByTime):
            # A blocking call that is meant waits as well: only a finding tells which one is not.
            continue
        cases.append(Case(path, name, name.endswith("_bad")))
    return cases


def lines_of(source: str, name: str) -> set[int]:
    """The lines of a function and of the functions and classes of its file that it names."""
    defined = defined_in(source)
    return {line for one in reached(source, name) for line in defined[one][0]}


def reached(source: str, name: str) -> set[str]:
    """A function or class, and those of its file that it names, and so on."""
    defined = defined_in(source)
    seen: set[str] = set()
    todo = [name]
    while todo:
        one = todo.pop()
        if one not in seen and one in defined:
            seen.add(one)
            todo += defined[one][1]
    return seen


def _named(node: ast.AST) -> str:
    """A name, be it a text: ``applied("graphed", 3.0)``."""
    match node:
        case ast.Name(id=name) | ast.Constant(value=str() as name):
            return name
        case _:
            return ""


@cache
def defined_in(source: str) -> dict[str, tuple[range, frozenset[str]]]:
    """The functions and classes at the top of a module: their lines, and the names in them."""
    return {
        node.name: (
            range(
                min([node.lineno, *(each.lineno for each in node.decorator_list)]),
                (node.end_lineno or node.lineno) + 1,
            ),
            frozenset(name for inner in ast.walk(node) if (name := _named(inner))),
        )
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


CASES = _cases()


@cache
def _findings(path: Path) -> tuple[Finding, ...]:
    found = analyze(ROOT, [path], Settings()).findings
    return leading([one for one in found if not isinstance(witness_of(one.code), NoWitness)])


def plans(case: Case) -> list[Plan]:
    target = Target(case.path, case.function)
    witness = case.witness
    if case.bad:
        of_file = [one for one in _findings(case.path) if ROOT / one.primary.path == case.path]
        planned = of_findings(target, ROOT, of_file)
        if planned:
            return planned
    if isinstance(witness, ByError):
        return [Plan(case.path, ROOT, case.function, None, witness=witness)]
    return [replace(plan, witness=witness) for plan in of_each_statement(target, ROOT)]


BATCH = 60
"""Cases run together: starting the processes takes longer than most of what they run."""


class Machine:
    """Runs a batch of the selected cases when the first of them is asked for."""

    def __init__(self, selected: list[Case], gpus: int) -> None:
        self._selected = selected
        self._done: dict[Case, list[Confirmation]] = {}
        self.gpus = gpus

    def confirmations(self, case: Case) -> list[Confirmation]:
        if case not in self._done:
            start = self._selected.index(case)
            self._run(self._selected[start : start + BATCH])
            self._keep()
        return self._done[case]

    def _run(self, cases: list[Case]) -> None:
        jobs = int(os.environ.get("STREAMLINT_CONFIRM_JOBS", max(1, (os.cpu_count() or 1) // 2)))
        every = [plan for case in cases for plan in plans(case)]
        # What hangs costs all of its time.
        hanging = [plan for plan in every if isinstance(plan.witness, ByDeadlock)]
        usual = [plan for plan in every if plan not in hanging]
        done = confirm_all(usual, Limits(timeout_s=30, shared=True), jobs)
        done += confirm_all(hanging, Limits(timeout_s=15, shared=True), jobs)
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
        gpus = Driver().device_count()
    except DriverUnavailableError as error:
        pytest.skip(str(error))
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    selected = [item.callspec.params.get("case") for item in items if hasattr(item, "callspec")]
    cases = [case for case in selected if isinstance(case, Case)]
    return Machine([case for case in cases if _possible(case, gpus) is None], gpus)


@cache
def _importable(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def _possible(case: Case, gpus: int) -> str | None:
    """Why the case cannot be run here."""
    library = LIBRARIES[case.path.parent.name]
    if not _importable(library):
        return f"needs {library}"
    if gpus < 2 and needs_two_gpus(case.path):
        return "needs two GPUs"
    if needs_a_group(case.path):
        return "needs a process group"
    return None


BROKEN = (
    "numba-cuda 0.30.4 cannot queue callbacks with cuda-bindings 13: it asks a `CUstream` for its `value`"
)
NO_EXTERNAL = "this version of Warp records no external events"
NO_SOURCE = "the source of its kernel is in a file that is not there"
EITHER_FIRST = "either thread may come first, with a value of its own"
GIVEN_BACK = "gives back the tensor itself, which is read when all is idle; shown where it is summed up"
SAME_PAGE = "each pass uploads the same values; shown where each has its own"
RIGHT_ALL_THE_SAME = "the order is missing, and the value was right all the same"
NOT_YET = "planned by statement only, and ordered in all plans: not shown, and not known why"
ONE_RANK = "with one rank an all-reduce in place does nothing; shown with two"
PINNED_AGAIN = "the reference gets the pinned block as well: the value is wrong in each run"
LAST_PLAN = "the pair that shows it comes last of many plans"
RACES_ON_THE_HOST = "the host races too when all is serialized; seen wrong by hand"
GONE = "nothing is late: the memory is gone, and what uses its allocator afterwards fails"
OTHER_DEVICE = "works on a device that is not current, and was ordered in one of two runs: not known why"
AT_ONCE = "two threads do it at once: which comes first on the host is another one in each run"
KNOWN = {
    "torch/sl101_devices_of_elements::streams_of_devices_bad": OTHER_DEVICE,
    "torch/sl101_devices_of_elements::memory_of_elements_bad": OTHER_DEVICE,
    "torch/sl101_devices_of_elements::helpers_bad": OTHER_DEVICE,
    "torch/sl101_joined_for_a_time::watched_bad": "the thread has ended in the time that it is given",
    "cuda_runtime/sl402_of_an_object::tensor_bad": GONE,
    "cuda_runtime/sl402_of_an_object::all_of_them_bad": GONE,
    "cuda_runtime/sl402_of_an_object::array_bad": GONE,
    "torch/sl504_captured_steps::of_a_class_bad": (
        "wrong as it is, and told of the class: where outside code calls it, and not of this function"
    ),
    "cuda_runtime/sl201_bound_by_ctypes::refilled_bad": (
        "before a statement nobody knows which pointer of ctypes is a stream"
    ),
    "warp/sl201_host_read_before_sync::external_event_ok": NO_EXTERNAL,
    "warp/sl201_host_read_before_sync::external_event_bad": NO_EXTERNAL,
    "torch/sl102_signals::polled_ok": (
        "cannot be serialized: a kernel polls the value that a later statement stores"
    ),
    "cupy/sl101_changed_places::forth_and_back_bad": NO_SOURCE,
    "cupy/sl101_changed_places::forth_and_back_ok": NO_SOURCE,
    "cupy/sl101_groups_of_calls::recorded_in_the_group_bad": (
        "it is held back at the call, in front of the event, and queued at the end of the group"
    ),
    "torch/sl102_left_by_locks::published_bad": EITHER_FIRST,
    "torch/sl103_recorded_by_threads::saves_bad": EITHER_FIRST,
    "torch/sl103_recorded_by_threads::fills_bad": EITHER_FIRST,
    "torch/sl102_left_by_locks::published_ok": EITHER_FIRST,
    "torch/sl102_objects_given_to_pools::mapped_bad": AT_ONCE,
    "torch/sl102_objects_given_to_pools::submitted_bad": AT_ONCE,
    "torch/sl102_objects_given_to_pools::two_at_once_bad": AT_ONCE,
    "torch/sl102_threads_started_together::in_turn_bad": AT_ONCE,
    "torch/sl102_threads_started_together::rows_bad": AT_ONCE,
    "torch/sl102_threads_started_together::together_bad": AT_ONCE,
    "torch/sl101_events_of_uploads::uploaded_bad": GIVEN_BACK,
    "torch/sl401_saved_by_functions::layers_bad": SAME_PAGE,
    "torch/sl401_walked_to_their_end::batches_bad": RIGHT_ALL_THE_SAME,
    "torch/sl401_needs_no_gradients::scaled_bad": RIGHT_ALL_THE_SAME,
    "torch/sl401_needs_no_gradients::in_pairs_bad": RIGHT_ALL_THE_SAME,
    "torch/sl401_saved_tensors_in_turn::powers_bad": RIGHT_ALL_THE_SAME,
    "torch/sl401_saved_tensors_in_turn::left_bad": RIGHT_ALL_THE_SAME,
    "torch/sl101_hooks_of_seen_modules::ahead_bad": NOT_YET,
    "torch/sl401_taken_from_tensors::layers_bad": NOT_YET,
    "torch/sl401_taken_from_tensors::hooks_bad": NOT_YET,
    "torch/sl602_counted_again::moved_bad": "the last copy is right, whatever came before it",
    "torch/sl101_results_of_hooked_modules::found_bad": LAST_PLAN,
    "torch/sl101_functions_that_begin_again::scaled_behind_the_wait_bad": LAST_PLAN,
    "torch/sl101_tables_of_generators::table_bad": LAST_PLAN,
    "torch/sl101_pools_of_threads::beside_bad": RACES_ON_THE_HOST,
    "torch/sl102_changed_behind_put::in_place_bad": RACES_ON_THE_HOST,
    "torch/sl102_changed_behind_put::refilled_bad": RACES_ON_THE_HOST,
    "torch/sl101_added_tuples::walked_bad": NOT_YET,
    "torch/sl602_counted_again::sent_bad": ONE_RANK,
    "torch/sl202_beside_threads::refilled_bad": EITHER_FIRST,
    "torch/sl202_beside_threads::joined_bad": EITHER_FIRST,
    "torch/sl202_beside_threads::load_bad": EITHER_FIRST,
    "torch/sl504_pinned_sources::dropped_bad": PINNED_AGAIN,
    "torch/sl504_pinned_sources::decoded_bad": PINNED_AGAIN,
    "torch/sl401_kept_in_long_loops::long_loop_bad": (
        "indices are overwritten: an assertion on the device ends the program"
    ),
    "torch/sl602_coalesced_collectives::summed_bad": ONE_RANK,
    "torch/sl602_values_of_futures::polled_bad": ONE_RANK,
    "torch/sl602_values_of_futures::in_a_list_bad": ONE_RANK,
    "nccl/sl101_groups::reduced_bad": ONE_RANK,
    "numba/sl201_awaited_callbacks::awaited_ok": BROKEN,
    "numba/sl302_blocking_host_callback::event_bad": BROKEN,
    "numba/sl302_blocking_host_callback::event_ok": BROKEN,
    "numba/sl601_handoff_without_stream::back_ok": BROKEN,
    "numba/sl301_cuda_call_in_host_callback::copy_in_callback_bad": BROKEN,
    "numba/sl301_cuda_call_in_host_callback::copy_in_callback_ok": BROKEN,
    "numba/sl301_cuda_call_in_host_callback::synchronize_in_callback_bad": BROKEN,
    "numba/sl301_cuda_call_in_host_callback::synchronize_in_callback_ok": BROKEN,
}
"""What was not shown on the GPUs tried so far, and why."""


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=str)
def test_label_is_right(case: Case, machine: Machine) -> None:
    reason = _possible(case, machine.gpus)
    if reason is not None:
        pytest.skip(reason)
    shown = machine.confirmations(case)
    account = report.text(shown)
    verdicts = {confirmation.decision.verdict for confirmation in shown}
    if (Verdict.CONFIRMED in verdicts) != case.bad or Verdict.NOT_RUN in verdicts:
        known = KNOWN.get(str(case))
        if known is not None:
            pytest.xfail(known)
    assert Verdict.NOISY not in verdicts, account
    assert (Verdict.CONFIRMED in verdicts) == case.bad, account
    assert case.bad or Verdict.NOT_RUN not in verdicts, account


def test_every_rule_declares_its_witness() -> None:
    from streamlint.rules import RULES

    assert [rule.code for rule in RULES if rule.witness is UNDECLARED] == []
