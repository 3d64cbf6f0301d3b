"""What is planned, and what the command says where nothing can run."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from streamlint import confirm
from streamlint.confirm import command
from streamlint.confirm.gpu.driver import DriverUnavailableError
from streamlint.confirm.plan.functions import PlanError, Program
from streamlint.confirm.plan.plans import Plan, Target, of_each_statement, of_findings, parse_target
from streamlint.confirm.report import text as report
from streamlint.confirm.run.runner import Confirmation
from streamlint.confirm.run.server import Limits, server_environment, slow_imports
from streamlint.confirm.text.instrument import Place
from streamlint.confirm.verdict import Decision, Difference, Verdict
from streamlint.errors import UserError
from streamlint.finding import Confidence, Finding, Related, Severity
from streamlint.run.engine import Settings, analyze
from streamlint.source import Span
from streamlint.witness import ByValue, NoWitness
from tests.expectations import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = """\
import functools
import torch


class Loader:
    def __init__(self):
        self.side = torch.cuda.Stream()

    def load(self, x):
        with torch.cuda.stream(self.side):
            x.fill_(7.0)
        return x


def helper(x):
    x.add_(1)


def loads():
    x = torch.zeros(4, device="cuda")
    torch.cuda.synchronize()
    Loader().load(x)
    run = functools.partial(helper, x)
    run()
    return x.sum().item()


def takes(x):
    return x.sum()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, "utf-8")
    return path


def line(text: str) -> int:
    return next(i for i, one in enumerate(PROGRAM.splitlines(), 1) if text in one)


def finding(function: str, later: int, *earlier: int, code: str = "SL101") -> Finding:
    def span(at: int) -> Span:
        return Span("program.py", at, 4, at, 9)

    related = tuple(Related(span(at), "written here") for at in earlier)
    return Finding(
        code, "name", "m", "h", Confidence.CERTAIN, Severity.ERROR, span(later), "", function, related, "mark"
    )


def planned(
    program: Path, *findings: Finding, function: str | None = None
) -> list[tuple[str, int | None, int | None]]:
    plans = of_findings(Target(program, function), program.parent, findings)

    def number(place: Place | None) -> int | None:
        return None if place is None else place.line

    return [(p.function, number(p.earlier), number(p.later)) for p in plans]


def test_a_finding_names_both_places(program: Path) -> None:
    assert planned(program, finding("loads", 24, 22)) == [("loads", 22, 24)]


def test_nothing_is_held_back_in_the_body_of_a_module(program: Path) -> None:
    assert planned(program, finding("loads", 24, 1)) == []


def test_what_is_pending_at_a_call_is_each_statement_of_the_caller() -> None:
    path = FIXTURES / "torch" / "sl101_given_streams.py"
    found = analyze(path.parent, [path], Settings()).findings
    plans = of_findings(Target(path, "given_stream_bad"), path.parent, found)
    pending = [plan for plan in plans if plan.witness == ByValue(names_earlier=False)]
    lines = path.read_text("utf-8").splitlines()
    held = [lines[plan.earlier.line - 1].strip() for plan in pending if plan.earlier is not None]
    assert {"gate = GivenGate(torch.cuda.Stream())", "gate.begin(x)", "return x.fill_(value)"} <= set(held)
    assert not any("self.score" in line for line in held)


def test_what_is_known_to_be_pending_is_the_statement_that_queued_it() -> None:
    path = FIXTURES / "torch" / "sl101_hooks.py"
    found = analyze(path.parent, [path], Settings()).findings
    plans = of_findings(Target(path, "gradient_bad"), path.parent, found)
    (plan,) = (plan for plan in plans if plan.code == "SL101")
    assert plan.earlier is not None
    assert (
        path.read_text("utf-8").splitlines()[plan.earlier.line - 1].strip() == "(weight * 3).sum().backward()"
    )
    assert plan.witness == ByValue()


def test_a_finding_in_a_method_is_run_by_what_reaches_it(program: Path) -> None:
    assert planned(program, finding("Loader.load", 11, 10)) == [("loads", 10, 11)]
    assert planned(program, finding("helper.<locals>.inner", 16, 16)) == [("loads", 16, 16)]


def test_a_finding_without_an_earlier_place_tries_all(program: Path) -> None:
    every = [place.line for place in Program(program).work("loads")]
    expected = [("loads", one, 24) for one in every]
    assert planned(program, finding("loads", 24)) == expected
    # What SL103 points to besides the wait is a record, which is nothing to hold back.
    assert planned(program, finding("loads", 24, 23, code="SL103")) == expected


def test_a_finding_may_stand_at_the_earlier_place(program: Path) -> None:
    left_out = finding("loads", 22, 24, code="SL104")
    assert planned(program, replace(left_out, earlier=left_out.primary)) == [("loads", 22, 24)]
    assert planned(program, finding("loads", 24, 22, code="SL104")) == [("loads", 22, 24)]


def test_a_finding_whose_evidence_is_an_error_needs_no_earlier_place(program: Path) -> None:
    assert planned(program, finding("loads", 24, 22, code="SL301")) == [("loads", None, 24)]


def test_a_finding_that_nothing_reaches_is_left_out(program: Path) -> None:
    assert planned(program, finding("takes", 29, 29)) == []
    assert planned(program, finding("helper", 16, 16), function="loads") == [("loads", 16, 16)]


def test_each_statement_that_queues_work(program: Path) -> None:
    plans = of_each_statement(Target(program, "loads"), program.parent)
    lines = {plan.earlier.line for plan in plans if plan.earlier}
    assert lines >= {line("x.fill_"), line("x.add_"), line("torch.zeros"), line("x.sum().item")}
    assert not lines & {line("torch.cuda.synchronize"), line("self.side = "), line("Loader().load") - 1}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["{}::takes", "--each"], "takes takes arguments"),
        (["{}::nowhere", "--each"], "defines no function nowhere"),
        (["{}", "--each"], "name the function"),
        (["{}::loads", "--earlier", "1"], "line 1 of program.py holds no statement"),
        (["{}::loads", "--later", "20"], "--later needs --earlier"),
        (["{}::loads", "--earlier", "19", "--each"], "exclude each other"),
        (["{}x::loads"], "is not a file"),
    ],
)
def test_wrong_use_is_one_clear_sentence(
    program: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    assert confirm.main([argument.format(program) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert reason in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_file_that_is_no_python(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("def f(:\n", "utf-8")
    with pytest.raises(PlanError, match=r"x\.py"):
        Program(parse_target(str(tmp_path / "x.py")).path)


def test_a_file_that_would_hold_up_the_parser(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(f"def f():\n    return f'{'{s}' * 600_000}'\n", "utf-8")
    with pytest.raises(PlanError, match=r"x\.py: too many braces"):
        Program(tmp_path / "x.py")
    assert slow_imports([tmp_path / "x.py"]) == []


def test_a_file_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(b"# coding: latin-1\r\nimport torch\r\ndef f():\r\n    return '\xe9'\r\n")
    assert Program(path).holds(Place(4, 4))
    assert slow_imports([path]) == ["torch"]


def test_plan_needs_no_gpu(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = f"{program}::loads"
    assert confirm.main([target, "--earlier", "22", "--later", "24", "--plan"]) == 0
    assert capsys.readouterr().out == "program.py::loads: line 22 held back, line 24 watched (value)\n"
    assert confirm.main([target, "--earlier", "22", "--plan", "--output-format", "json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out)["plans"]
    assert (plan["path"], plan["function"], plan["earlier"]) == ("program.py", "loads", {"line": 22})


def test_without_a_gpu_it_says_so(
    program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise DriverUnavailableError("no CUDA driver (libcuda.so.1) on this machine")

    monkeypatch.setattr(command, "Driver", missing)
    assert confirm.main([f"{program}::loads", "--earlier", "22"]) == 2
    assert "needs an NVIDIA GPU: no CUDA driver" in capsys.readouterr().err


def shown(path: Path, verdict: Verdict) -> Confirmation:
    plan = Plan(path, path.parent, "loads", Place(22), Place(24, 8), "SL101", "mark")
    wrong = Difference("[0]", "7.0", "0.0") if verdict is Verdict.CONFIRMED else None
    return Confirmation(plan, Decision(verdict, "because", wrong), {"GPU": "one"})


def test_exit_status(program: Path) -> None:
    def status(*verdicts: Verdict) -> int:
        return command.exit_status([shown(program, verdict) for verdict in verdicts])

    assert status(Verdict.ORDERED, Verdict.UNORDERED, Verdict.NOISY, Verdict.NOT_REACHED) == 0
    assert status(Verdict.ORDERED, Verdict.NOT_RUN) == 2
    assert status(Verdict.NOT_RUN, Verdict.CONFIRMED) == 1
    assert status() == 0


def test_reports(program: Path) -> None:
    done = [shown(program, Verdict.CONFIRMED), shown(program, Verdict.ORDERED)]
    text = report.text(done)
    evidence = "because: [0] is 0.0, 7.0 when serialized"
    assert f"CONFIRMED  SL101  program.py::loads  22 held back, 24 watched  {evidence}" in text.splitlines()
    assert text.endswith("GPU one\n1 confirmed, 1 ordered")
    document = json.loads(report.as_json(done))
    assert [c["verdict"] for c in document["confirmations"]] == ["CONFIRMED", "ORDERED"]
    assert document["confirmations"][0]["difference"] == {"place": "[0]", "reference": "7.0", "gated": "0.0"}
    assert document["confirmations"][0]["later"] == {"line": 24, "column": 9}
    assert document["environment"] == {"GPU": "one"}


def test_the_environment_hides_no_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8")
    monkeypatch.delenv("CUDA_MODULE_LOADING", raising=False)
    environment = server_environment(tmp_path, tmp_path, lazy=False)
    assert "CUDA_LAUNCH_BLOCKING" not in environment
    assert environment["CUDA_MODULE_LOADING"] == "EAGER"
    assert environment["CUDA_DEVICE_MAX_CONNECTIONS"] == "8"


RACE = """\
import torch


def step():
    side = torch.cuda.Stream()
    x = torch.zeros(4, device="cuda")
    with torch.cuda.stream(side):
        x.fill_(7.0)
    return x.sum().item()


def main(argument):
    return step()
"""


@pytest.fixture
def race(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (tmp_path / "package").mkdir()
    path = tmp_path / "package" / "race.py"
    path.write_text(RACE, "utf-8")
    (tmp_path / "package" / "calm.py").write_text("import torch\n\nx = torch.zeros(4)\n", "utf-8")
    return path


def plans_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    first, *rest = arguments
    assert confirm.main([first, "--plan", "--output-format", "json", *rest]) == 0
    plans: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["plans"]
    return plans


def test_a_command_is_planned_by_its_findings(race: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in (race, race.parent, f"{race}::step"):
        plans = plans_of(capsys, str(target), "--", "python", "train.py", "--plan", "::")
        codes = [(plan["code"], plan["function"], plan["witness"]) for plan in plans]
        assert ("SL101", "step", "value") in codes
    assert plans_of(capsys, f"{race}::other", "--", "python", "train.py") == []
    assert plans_of(capsys, str(race.parent / "calm.py"), "--", "python", "train.py") == []


def test_findings_are_chosen_by_code_and_by_fingerprint(
    race: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (plan,) = [p for p in plans_of(capsys, str(race)) if p["code"] == "SL101"]
    mark = plan["fingerprint"]
    assert {p["fingerprint"] for p in plans_of(capsys, str(race), "--finding", mark)} == {mark}
    assert {p["code"] for p in plans_of(capsys, str(race), "--code", "SL101")} == {"SL101"}
    assert plans_of(capsys, str(race), "--code", "SL2") == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["{}", "--finding", "nothing"], "no finding has the fingerprint nothing"),
        (["{}", "--"], "no command after --"),
        (["{}::step", "--each", "--", "python"], "are for functions, not for a command"),
    ],
)
def test_wrong_use_with_a_command_is_one_clear_sentence(
    race: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    assert confirm.main([argument.format(race) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert reason in captured.err
    assert captured.err.count("\n") == 1


def test_a_rule_that_does_not_exist_is_refused(race: Path) -> None:
    with pytest.raises(UserError, match="unknown rule"):
        confirm.main([str(race), "--code", "SL9999"])


def test_findings_carry_what_was_confirmed(race: Path) -> None:
    finding_of = finding("step", 9, 8)
    own = replace(shown(race, Verdict.ORDERED), plan=replace(shown(race, Verdict.ORDERED).plan))
    done = [own, shown(race, Verdict.CONFIRMED), shown(race, Verdict.NOT_RUN)]
    document = json.loads(report.as_json(done, [finding_of, replace(finding_of, fingerprint="other")]))
    first, second = document["findings"]
    assert (first["code"], first["line"], first["fingerprint"]) == ("SL101", 9, "mark")
    assert first["confirm"]["verdict"] == "CONFIRMED"
    assert first["confirm"]["difference"] == {"place": "[0]", "reference": "7.0", "gated": "0.0"}
    assert second["confirm"] is None


def test_two_gpus_are_asked_for_where_the_rule_needs_them(
    program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class One:
        def device_count(self) -> int:
            return 1

    monkeypatch.setattr(command, "Driver", One)
    plan = replace(shown(program, Verdict.ORDERED).plan, witness=ByValue(gpus=2))
    monkeypatch.setattr(command, "_planned", lambda *_: command._Planned([plan]))
    assert confirm.main([str(program)]) == 2
    assert "the finding is about 2 GPUs, and there is 1" in capsys.readouterr().out


def test_what_has_no_witness_does_not_count_as_not_run(program: Path) -> None:
    nothing = shown(program, Verdict.NOT_RUN)
    nothing = replace(nothing, plan=replace(nothing.plan, witness=NoWitness("it is so")))
    assert command.exit_status([nothing]) == 0


def test_the_runs_are_prepared_while_files_are_analyzed(
    race: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    @contextmanager
    def serving(_root: Path, preload: list[str], _limits: Limits) -> Iterator[str]:
        steps.append(f"started with {', '.join(preload)}")
        yield "server"
        steps.append("ended")

    def planned(*_: object) -> command._Planned:
        steps.append("planned")
        return command._Planned([shown(race, Verdict.ORDERED).plan])

    def confirm_all(*arguments: object) -> list[Confirmation]:
        steps.append(f"run by {arguments[-1]}")
        return [shown(race, Verdict.ORDERED)]

    monkeypatch.setattr(command, "Driver", lambda: SimpleNamespace(device_count=lambda: 1))
    for name, function in (("serving", serving), ("_planned", planned), ("confirm_all", confirm_all)):
        monkeypatch.setattr(command, name, function)
    assert confirm.main([str(race)]) == 0
    assert steps == ["started with torch", "planned", "run by server", "ended"]
    # Nothing is known yet of what the files of a folder need, nor of what a command does.
    steps.clear()
    confirm.main([str(race.parent)])
    confirm.main([str(race), "--plan"])
    assert steps == ["planned", "run by None", "planned"]
    capsys.readouterr()


def test_what_a_hooked_module_computes_is_queued_where_it_is_called() -> None:
    path = FIXTURES / "torch" / "sl101_results_of_hooked_modules.py"
    found = analyze(path.parent, [path], Settings()).findings
    lines = path.read_text("utf-8").splitlines()
    for driver in ("kept_bad", "found_bad", "watched_bad"):
        plans = of_findings(Target(path, driver), path.parent, found)
        of_module = [plan for plan in plans if plan.witness == ByValue(names_earlier=False)]
        held = {lines[plan.earlier.line - 1].strip() for plan in of_module if plan.earlier is not None}
        assert "x = layer(x)" in held, driver


def test_a_method_of_a_base_class_is_reached(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(
        "class Ring:\n"
        "    def step(self):\n"
        "        page.copy_(x, non_blocking=True)\n"
        "class Counted(Ring):\n"
        "    pass\n"
        "class Steps(Counted[int]):\n"
        "    def run(self):\n"
        "        self.step()\n"
        "def main():\n"
        "    Steps().run()\n",
        encoding="utf-8",
    )
    program = Program(path)
    assert program.reachable("main") == ["main", "Ring.step", "Steps.run"]
    assert program.drivers("Ring.step") == ["main"]
    assert 3 in [place.line for place in program.work("main")]


def test_a_function_may_be_named_by_a_text(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(
        "def fill():\n"
        "    page.copy_(x, non_blocking=True)\n"
        "def applied(name):\n"
        "    globals()[name]()\n"
        "def main():\n"
        "    applied('fill')\n",
        encoding="utf-8",
    )
    assert Program(path).drivers("fill") == ["fill", "main"]


def test_coroutines_are_run_by_who_awaits_them(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(
        "import asyncio\n"
        "async def fetch():\n"
        "    page.copy_(x, non_blocking=True)\n"
        "    return page.sum()\n"
        "def main():\n"
        "    return asyncio.run(fetch())\n",
        encoding="utf-8",
    )
    program = Program(path)
    assert program.drivers("fetch") == ["main"]
    assert 3 in [place.line for place in program.work("main")]
    with pytest.raises(PlanError, match="is a coroutine"):
        program.require("fetch")
