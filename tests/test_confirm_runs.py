"""Whole runs on a GPU made of lists: instrumented, forked, compared."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from streamlint.confirm.gpu import gate, handles
from streamlint.confirm.gpu.gate import Gate
from streamlint.confirm.inside import child, cuda_errors, hold, probe
from streamlint.confirm.inside.forks import Forks
from streamlint.confirm.inside.hold import Hold
from streamlint.confirm.inside.probe import Mode, Probe
from streamlint.confirm.plan.plans import Plan, Target, of_each_statement
from streamlint.confirm.run.runner import confirm_all
from streamlint.confirm.run.server import Limits
from streamlint.confirm.text.instrument import Place
from streamlint.confirm.verdict import Verdict
from streamlint.witness import ByDeadlock, ByValue
from tests.confirm_support import CALLBACKS, OF_PYTORCH, PROGRAM, Device, alive
from tests.forking import confirm, place, serve

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlint.confirm.verdict import Decision

# Forking is the point here; the threads that Python warns of belong to the pool that waits for it.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return serve(PROGRAM, tmp_path, monkeypatch)


@pytest.mark.parametrize("shared", [False, True])
def test_a_missing_order_is_confirmed(program: Path, shared: bool) -> None:
    decision = confirm(program, "bad", "copy(x", later="copy(y", shared=shared).decision
    assert decision.verdict is Verdict.CONFIRMED
    assert decision.difference is not None
    assert (decision.difference.reference, decision.difference.gated) == ("7", "0")


@pytest.mark.parametrize("shared", [False, True])
def test_its_twin_is_not(program: Path, shared: bool) -> None:
    decision = confirm(program, "ok", "copy(x", later="copy(y", shared=shared).decision
    assert decision.verdict is Verdict.ORDERED


def test_overtaking_without_a_wrong_value_is_no_proof(program: Path) -> None:
    assert confirm(program, "harmless", "copy(x", later="copy(y").decision.verdict is Verdict.UNORDERED


def test_every_statement_in_turn(program: Path) -> None:
    plans = of_each_statement(Target(program, "bad"), program.parent)
    shown = [
        c.plan.earlier
        for c in confirm_all(plans, Limits(shared=True))
        if c.decision.verdict is Verdict.CONFIRMED
    ]
    assert [p and p.line for p in shown] == [place(program, "bad", "copy(x").line]


def test_one_turn_of_a_loop_is_held_back_alone(program: Path) -> None:
    done = confirm(program, "one_of_two_joined", "copy(part")
    assert done.decision.verdict is Verdict.CONFIRMED
    assert done.plan.turn == 1


def test_a_stream_among_the_arguments_is_held_back(program: Path) -> None:
    decision = confirm(program, "hands_its_stream_over", "give(x").decision
    assert decision.verdict is Verdict.CONFIRMED


def test_what_waits_before_it_queues_is_held_back_after_that(program: Path) -> None:
    done = confirm(program, "waits_before", "write(fakegpu")
    assert (done.decision.verdict, done.plan.hold) == (Verdict.CONFIRMED, Hold.LATE)


def test_a_statement_that_waits_by_itself_shows_no_order(program: Path) -> None:
    decision = confirm(program, "waits_inside", "load(x)").decision
    assert (decision.verdict, "itself waited" in decision.reason) == (Verdict.ORDERED, True)
    assert "itself waited" not in confirm(program, "ok", "copy(x").decision.reason


def test_of_two_libraries_one_is_held_back_alone(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    current = {"torch": OF_PYTORCH, "cupy": 0}
    monkeypatch.setattr(hold, "streams_by_library", lambda: current)
    done = confirm(program, "two_libraries", "write(x")
    assert (done.decision.verdict, done.plan.hold) == (Verdict.CONFIRMED, Hold.CUPY)
    current["torch"] = 0
    assert confirm(program, "two_libraries", "write(x").plan.hold is Hold.CURRENT


def test_what_runs_on_the_default_stream_whatever_is_current(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CuPy's ``x.data.memset(0, n)`` under ``with side:``."""
    monkeypatch.setattr(hold, "streams_by_library", lambda: {"cupy": OF_PYTORCH})
    done = confirm(program, "two_libraries", "write(x")
    assert (done.decision.verdict, done.plan.hold) == (Verdict.CONFIRMED, Hold.DEFAULT)


def test_the_threads_of_backward_are_not_those_of_callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    task = [3]
    torch = SimpleNamespace(_C=SimpleNamespace(_current_graph_task_id=lambda: task[0]))
    monkeypatch.setitem(sys.modules, "torch", cast("Any", torch))
    for device in (Device(), Device()):
        device.call_back(lambda: seen.append(handles.on_callback_thread()))
        device.called_back[0].wait()
        task[0] = -1
    assert seen == [False, True]
    assert not handles.on_callback_thread()


def test_the_other_device_is_held_back_where_the_finding_is_about_two(program: Path) -> None:
    one = Plan(program, program.parent, "on_other_device", place(program, "on_other_device", "copy_there"))
    two = replace(one, witness=ByValue(gpus=2))
    verdicts = [confirm_all([plan], Limits(timeout_s=5))[0].decision.verdict for plan in (one, two)]
    assert verdicts == [Verdict.ORDERED, Verdict.CONFIRMED]


def test_a_statement_not_run_is_not_reached(program: Path) -> None:
    assert confirm(program, "branch", "copy(x").decision.verdict is Verdict.NOT_REACHED


def test_a_program_that_varies_by_itself_is_noisy(program: Path) -> None:
    assert confirm(program, "noisy", "count").decision.verdict is Verdict.NOISY


def test_what_an_earlier_run_left_in_the_process_is_no_evidence(program: Path) -> None:
    plans = of_each_statement(Target(program, "registers"), program.parent)
    done = confirm_all(plans, Limits(timeout_s=5, shared=True))
    assert {c.decision.verdict for c in done} == {Verdict.ORDERED}


@pytest.mark.parametrize(("shared", "calls"), [(False, 6), (True, 4)])
def test_a_program_that_loads_kernels_is_called_once_before_in_each_process(
    program: Path, monkeypatch: pytest.MonkeyPatch, shared: bool, calls: int
) -> None:
    monkeypatch.setattr(child, "_LOADING", ("fakegpu",))
    # The reference, the gated run, and for the difference a control.
    assert confirm(program, "noisy", "count", shared=shared).decision.verdict is Verdict.NOISY
    assert len((program.parent / "runs").read_text()) == calls


def test_a_program_that_always_fails_is_not_run(program: Path) -> None:
    decision = confirm(program, "fails", "raise").decision
    assert decision.verdict is Verdict.NOT_RUN
    assert "ValueError: as always" in decision.reason


def test_an_error_that_only_the_delay_brings_is_confirmed(program: Path) -> None:
    decision = confirm(program, "late_error", "copy(x").decision
    assert decision.verdict is Verdict.CONFIRMED
    assert "ZeroDivisionError" in decision.reason


def test_a_crash_names_its_signal(program: Path) -> None:
    decision = confirm(program, "crash", "crash").decision
    assert decision.verdict is Verdict.NOT_RUN
    assert "SIGKILL" in decision.reason


FORK = "import os; (lambda pid: os._exit(0) if pid == 0 else os.waitpid(pid, 0))(os.fork())"
BYTES = "import os; os.write(1, bytes(range(256)) * 500); os.write(2, bytes(range(256)))"


@pytest.mark.parametrize(
    ("ending", "verdict"),
    [
        ("import os; os._exit(0)", Verdict.NOT_RUN),
        ("raise SystemExit(3)", Verdict.NOT_RUN),
        (BYTES, Verdict.CONFIRMED),
        (FORK, Verdict.CONFIRMED),
        ("import sys; sys.stdout.close(); sys.stdin.close()", Verdict.CONFIRMED),
    ],
)
def test_what_else_a_function_does(program: Path, ending: str, verdict: Verdict) -> None:
    end = "    fakegpu.synchronize()\n    return y[0]\n"
    program.write_text(PROGRAM.replace(end, end.replace("return", f"{ending}\n    return"), 1), "utf-8")
    plans = [
        plan
        for name in ("bad", "harmless")
        for plan in of_each_statement(Target(program, name), program.parent)
    ]
    done = confirm_all(plans, Limits(timeout_s=5))
    copying = place(program, "bad", "copy(x").line
    shown = [c.decision for c in done if c.plan.earlier is not None and c.plan.earlier.line == copying]
    assert [one.verdict for one in shown] == [verdict], shown
    # The other function has its verdicts all the same.
    others = {c.decision.verdict for c in done if c.plan.function == "harmless"}
    assert others <= {Verdict.ORDERED, Verdict.UNORDERED}


def test_a_crash_does_not_take_others_with_it(program: Path) -> None:
    names = ("crash", "bad")
    plans = [plan for name in names for plan in of_each_statement(Target(program, name), program.parent)]
    done = confirm_all(plans, Limits(shared=True))
    assert {c.plan.function for c in done if c.decision.verdict is Verdict.CONFIRMED} == {"bad"}
    assert {c.plan.function for c in done if c.decision.verdict is Verdict.NOT_RUN} == {"crash"}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("function", "reason"), [("corrupts", "ILLEGAL_ADDRESS"), ("allocates", "out of memory")]
)
def test_a_broken_device_and_a_full_one_are_left_behind(
    program: Path, function: str, reason: str, shared: bool
) -> None:
    names = (function, "bad")
    plans = [plan for name in names for plan in of_each_statement(Target(program, name), program.parent)]
    done = confirm_all(plans, Limits(shared=shared))
    own = [c.decision for c in done if c.plan.function == function]
    assert {one.verdict for one in own} == {Verdict.NOT_RUN}
    assert reason in own[0].reason
    assert Verdict.CONFIRMED in {c.decision.verdict for c in done if c.plan.function == "bad"}


@pytest.fixture
def callbacks(program: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs with host callbacks, called once before. In a callback no stream can be looked up."""

    def looked_up(device: int | None = None) -> list[int]:
        del device
        assert not isinstance(threading.current_thread(), threading._DummyThread), "not permitted"
        return [1]

    monkeypatch.setattr(child, "_COMPILING", ("fakegpu",))
    for module in (handles, gate, probe):
        monkeypatch.setattr(module, "current_streams", looked_up)
    program.write_text(CALLBACKS, "utf-8")
    return program


def deadlock(path: Path, function: str, line_of: str, later: str) -> Decision:
    plan = Plan(
        path,
        path.parent,
        function,
        place(path, function, line_of),
        place(path, function, later),
        witness=ByDeadlock(),
    )
    (done,) = confirm_all([plan], Limits(timeout_s=1))
    return done.decision


def test_a_deadlock_ends_without_the_wait_of_the_callback(callbacks: Path) -> None:
    found = deadlock(callbacks, "event_bad", "call_back", "ready.wait")
    assert found.verdict is Verdict.CONFIRMED
    assert "program.py, line 14, in event_bad, and another thread at program.py, line 10" in found.reason
    assert "without that wait it ends" in found.reason


def test_the_wait_of_a_lambda_is_left_out_too(callbacks: Path) -> None:
    queued = place(callbacks, "lambda_bad", "call_back")
    column = callbacks.read_text("utf-8").splitlines()[queued.line - 1].index("ready")
    waiting = Place(queued.line, column)
    plan = Plan(callbacks, callbacks.parent, "lambda_bad", queued, waiting, witness=ByDeadlock())
    (done,) = confirm_all([plan], Limits(timeout_s=1))
    assert done.decision.verdict is Verdict.CONFIRMED, done.decision


def test_a_program_that_hangs_without_the_wait_is_no_evidence(callbacks: Path) -> None:
    found = deadlock(callbacks, "hangs_anyway", "call_back", "fakegpu.synchronize")
    assert (found.verdict, "nor does it" in found.reason) == (Verdict.NOISY, True)


@pytest.mark.parametrize("how", [Hold.CURRENT, Hold.CUPY, Hold.ELSEWHERE])
@pytest.mark.parametrize("function", ["event_ok", "pool_ok", "signal_ok"])
def test_probes_make_no_deadlock(callbacks: Path, function: str, how: Hold) -> None:
    plans = of_each_statement(Target(callbacks, function), callbacks.parent)
    stuck = [replace(plan, witness=ByDeadlock(), hold=how) for plan in plans]
    done = confirm_all(stuck, Limits(delay_ms=10, timeout_s=5, shared=True))
    assert {c.decision.verdict for c in done} <= {Verdict.ORDERED, Verdict.NOT_REACHED}, done
    assert Verdict.ORDERED in {c.decision.verdict for c in done}


def test_a_probe_that_waits_is_told_from_a_program_that_waits(callbacks: Path) -> None:
    # The serialized run waits for the device before the flag is set for which the callback waits.
    plan = Plan(callbacks, callbacks.parent, "event_ok", place(callbacks, "event_ok", "call_back"))
    (done,) = confirm_all([plan], Limits(timeout_s=1))
    assert done.decision.verdict is Verdict.NOT_RUN
    assert "because a probe waits" in done.decision.reason


def test_a_hanging_program_is_killed(program: Path) -> None:
    plan = Plan(program, program.parent, "hang", place(program, "hang", "hang()"))
    before = time.monotonic()
    (done,) = confirm_all([plan], Limits(timeout_s=0.5))
    assert time.monotonic() - before < 10
    assert done.decision.verdict is Verdict.NOT_RUN
    assert "did not end within 0.5 s" in done.decision.reason


def test_what_a_program_started_is_killed_too(tmp_path: Path, program: Path) -> None:
    path = tmp_path / "starter.py"
    path.write_text(
        "import subprocess\n\ndef start():\n    return subprocess.Popen(['sleep', '60']).pid\n", "utf-8"
    )
    del program
    job = {"root": str(tmp_path), "runs": [_run(path, "start")]}
    (result,) = Forks().answer({"job": job, "timeout_s": 5, "log": str(tmp_path / "log"), "kept": False})
    pid = int(result["value"][0][1])
    for _ in range(100):
        if not alive(pid):
            return
        time.sleep(0.02)
    pytest.fail("the program's own child outlived it")


def test_a_missing_library_is_named(tmp_path: Path, program: Path) -> None:
    del program
    path = tmp_path / "needs.py"
    path.write_text("import nowhere_to_be_found\n\ndef f():\n    print(1)\n", "utf-8")
    (done,) = confirm_all([Plan(path, tmp_path, "f", Place(4))], Limits())
    assert done.decision.verdict is Verdict.NOT_RUN
    assert "needs nowhere_to_be_found" in done.decision.reason


def test_an_exception_in_a_callback_is_placed_in_the_users_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CUDARuntimeError(RuntimeError):
        status = 800

    def refused() -> None:
        raise CUDARuntimeError("cudaErrorNotPermitted: operation not permitted")

    path, device = tmp_path / "program.py", cast("Any", Device())
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.setattr(sys, "__unraisablehook__", lambda _info: None)
    probe = Probe(Mode.PLAIN, device, Gate(device, 1), path=str(path))
    child._hook_callback_exceptions(probe)
    space: dict[str, object] = {"library": refused}
    exec(compile("\ndef callback():\n    library()\n", str(path), "exec"), space)  # noqa: S102
    try:
        cast("Callable[[], None]", space["callback"])()
    except RuntimeError as error:
        info = SimpleNamespace(exc_value=error, exc_traceback=error.__traceback__)
        sys.unraisablehook(cast("sys.UnraisableHookArgs", info))
    assert [(error.code, error.line) for error in probe.errors] == [(800, 3)]


class AcceleratorError(RuntimeError): ...


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("CUDA error: operation not permitted when stream is capturing", [900]),
        ("CUDA error: operation not permitted", [800]),
        ("CUDA error: something new", [0]),
        ("operation not permitted", []),
        ("the current stream is capturing, so D2H transfers are disallowed", [900]),
        ("Cannot synchronize device cuda:0 while graph capture is active", [900]),
        ("no GPU was asked", []),
        ("CUDA_ERROR_ILLEGAL_ADDRESS: While executing a kernel, the device met an invalid address", [700]),
        ("Event device \x01 does not match recording stream's device ", [400]),
        ("Event device ", [400]),
    ],
)
def test_the_code_of_an_error_is_found_in_its_text(text: str, codes: list[int]) -> None:
    error = AcceleratorError(text)
    found = cuda_errors.of_exception(error, "", cast("Any", Device()), in_callback=False)
    assert [one.code for one in found] == codes


def test_the_errors_that_an_error_came_from_count() -> None:
    try:
        try:
            raise AcceleratorError("CUDA error: operation not permitted when stream is capturing")
        except AcceleratorError:
            raise ValueError("at the end of the capture")  # noqa: B904
    except ValueError as error:
        found = list(cuda_errors.of_exception(error, "", cast("Any", Device()), in_callback=False))
    assert [one.code for one in found] == [900]


def test_the_current_streams_of_the_other_devices_are_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []

    class Launching(Device):
        def launch(self, function: object, stream: int, arguments: object) -> None:
            del function, arguments
            held.append(stream)

    def current_stream(device: int) -> SimpleNamespace:
        return SimpleNamespace(cuda_stream=5 + device)

    cuda = SimpleNamespace(is_initialized=lambda: True, current_stream=current_stream)
    for name in ("cupy", "numba.cuda"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", cast("Any", SimpleNamespace(cuda=cuda)))
    Gate(cast("Any", Launching()), 1).hold_elsewhere()
    assert held == [7]


def test_what_the_calls_of_a_serialized_run_return_is_told() -> None:
    device, told = cast("Any", Device()), list[object]()
    for mode in (Mode.REFERENCE, Mode.GATED):
        one = Probe(mode, device, Gate(device, 1))
        one.on_made = told.append
        assert one.call(1, mode) is mode
    assert told == [Mode.REFERENCE]


def test_runs_that_share_a_process_keep_it_until_one_breaks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "Driver", Device)
    path = tmp_path / "several.py"
    path.write_text(
        "import os\n\ndef number():\n    return os.getpid()\n\ndef breaks():\n    raise ValueError\n", "utf-8"
    )
    forks = Forks()

    def run(function: str, *, kept: bool = True) -> object:
        job = {"root": str(tmp_path), "runs": [_run(path, function)]}
        (result,) = forks.answer({"job": job, "timeout_s": 5, "log": str(tmp_path / "log"), "kept": kept})
        return result.get("value") or result["status"]

    first = run("number")
    assert run("number") == first
    assert run("number", kept=False) != first
    assert run("number") == first
    assert run("breaks") == "raised"
    assert run("number") != first
    forks.close()


def test_what_earlier_runs_of_a_process_have_left_is_not_confirmed(program: Path) -> None:
    program.write_text(
        "import sys, fakegpu\n\ndef f():\n    x = [0]\n"
        "    fakegpu.copy(x, [7], stream=fakegpu.Stream())\n    fakegpu.synchronize()\n"
        "    sys.used = getattr(sys, 'used', 0) + 1\n    return sys.used % 3 == 2\n",
        "utf-8",
    )
    plan = Plan(program, program.parent, "f", Place(5))
    (done,) = confirm_all([plan], Limits(timeout_s=5, shared=True))
    assert done.decision.verdict is Verdict.ORDERED
    # Of a finding such runs are made when the program is run by it, each in a process of its own.
    (done,) = confirm_all([replace(plan, fingerprint="1c9e")], Limits(timeout_s=5, shared=True))
    assert done.decision.verdict is Verdict.CONFIRMED


def _run(path: Path, function: str) -> dict[str, object]:
    return {
        "path": str(path),
        "function": function,
        "mode": "gated",
        "earlier": None,
        "later": None,
        "turn": None,
        "delay_ms": 1,
        "hold": "current",
        "purpose": "order",
        "rehearsal": None,
    }
