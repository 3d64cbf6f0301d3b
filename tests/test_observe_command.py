"""``streamlint confirm --observe``: a program runs as Python would run it, and what it did is reported."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from streamlint import cli
from streamlint.finding import Seen
from tests.cli_support import Result, run
from tests.cuda_package import write_package

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    Observe: TypeAlias = Callable[..., Result]

RACE = """\
import sys
from cuda.bindings import runtime as cudart

def check(result):
    return result[1] if len(result) > 1 else None

D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice

def race(wait):
    one = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
    two = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
    done = check(cudart.cudaEventCreate())
    a = check(cudart.cudaMalloc(64))
    b = check(cudart.cudaMalloc(64))
    cudart.cudaMemsetAsync(a, 7, 64, one)
    cudart.cudaEventRecord(done, one)
    {wait}
    cudart.cudaMemcpyAsync(b, a, 64, D2D, two)
    cudart.cudaDeviceSynchronize()
    print("done", *sys.argv[1:])

def ends_badly():
    race(False)
    raise SystemExit(3)

if __name__ == "__main__":
    race("wait" in sys.argv)
"""
AT_RUN_TIME = "getattr(cudart, 'cudaStreamWait' + 'Event')(two, done, 0) if wait else None"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program beside a package that looks like cuda-python and needs no GPU."""
    write_package(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.streamlint]\n")
    path = tmp_path / "program.py"
    path.write_text(RACE.replace("{wait}", AT_RUN_TIME))
    return path


@pytest.fixture
def observe(capfd: pytest.CaptureFixture[str]) -> Observe:
    """The command, in this process; the program runs in another, and prints to the same streams."""
    return lambda *arguments: run(capfd, "confirm", "--observe", *arguments)


needs_columns = pytest.mark.skipif(sys.version_info < (3, 11), reason="code objects have no columns")


@needs_columns
def test_a_race_is_shown_with_its_source(program: Path, observe: Observe) -> None:
    done = observe(program, "first", "second")
    assert done.status == 1, done.err
    assert "done first second" in done.out
    assert "SL101" in done.out
    assert "`a` is read on `two` while `one` may still be writing it" in done.out
    assert "1 finding" in done.out


def test_the_same_program_with_its_wait(program: Path, observe: Observe) -> None:
    done = observe(program, "wait")
    assert (done.status, "No findings" in done.out) == (0, True), done.out + done.err


def test_json_is_not_mixed_with_what_the_program_prints(program: Path, observe: Observe) -> None:
    done = observe("--output-format", "json", program)
    (finding,) = json.loads(done.out)["findings"]
    assert "done" in done.err
    assert (finding["code"], finding["path"], finding["function"]) == ("SL101", "program.py", "race")


def test_a_prediction_has_the_same_fingerprint(
    program: Path, observe: Observe, capfd: pytest.CaptureFixture[str]
) -> None:
    program.write_text(RACE.replace("{wait}", "pass"))
    seen = json.loads(observe("--output-format", "json", program).out)["findings"]
    assert [finding["seen"] for finding in seen] == [Seen.BOTH.value]
    checked = run(capfd, "check", "--output-format", "json", program)
    predicted: list[dict[str, Any]] = json.loads(checked.out)["findings"]
    assert [f["fingerprint"] for f in predicted] == [f["fingerprint"] for f in seen]


STAGES = """\
import json
import sys
from cuda.bindings import runtime as cudart

def fill(a, b, stream):
    cudart.cudaMemsetAsync(a, 7, 64, stream)

def copy(a, b, stream):
    cudart.cudaMemcpyAsync(b, a, 64, 3, stream)

def run(plan):
    streams = {name: cudart.cudaStreamCreateWithFlags(1)[1] for name in ("one", "two")}
    a, b = cudart.cudaMalloc(64)[1], cudart.cudaMalloc(64)[1]
    for name, where in plan:
        getattr(sys.modules["__main__"], name)(a, b, streams[where])

run(json.loads(sys.argv[1]))
"""


def test_sarif_says_where_a_finding_comes_from(program: Path, observe: Observe) -> None:
    (shown,) = json.loads(observe("--output-format", "sarif", program).out)["runs"]
    assert [result["properties"]["seen"] for result in shown["results"]] == [Seen.BOTH.value]


def test_a_program_without_a_gpu_library(tmp_path: Path, observe: Observe) -> None:
    (tmp_path / "plain.py").write_text("import sys; print(sys.argv[1:], __name__)\n")
    done = observe(tmp_path / "plain.py", "--", "-v")
    assert done.status == 0
    assert "['-v'] __main__" in done.out
    assert "Nothing was observed" in done.out


def test_what_only_the_run_shows_is_marked(
    program: Path, observe: Observe, capfd: pytest.CaptureFixture[str]
) -> None:
    program.write_text(STAGES)
    assert run(capfd, "check", program).status == 0
    plan = [["fill", "one"], ["copy", "two"]]
    (finding,) = json.loads(observe("--output-format", "json", program, json.dumps(plan)).out)["findings"]
    assert (finding["code"], finding["function"], finding["seen"]) == ("SL101", "copy", Seen.OBSERVED.value)
    assert observe(program, json.dumps([["fill", "one"], ["copy", "one"]])).status == 0


def test_one_function(program: Path, observe: Observe) -> None:
    done = observe(f"{program}::ends_badly")
    assert done.status == 1
    assert "ended with status 3" in done.err
    assert "SL101" in done.out


@pytest.mark.parametrize("leaves", ["import os; os._exit(0)", "raise ValueError('x')", "sys.exit(0)"])
def test_programs_that_leave_in_their_own_way(program: Path, leaves: str, observe: Observe) -> None:
    program.write_text(program.read_text() + f"    {leaves}\n")
    done = observe(program)
    assert "SL101" in done.out, done.err


def test_a_program_that_is_killed(program: Path, observe: Observe) -> None:
    program.write_text(program.read_text() + "    import os; os.kill(os.getpid(), 9)\n")
    done = observe(program)
    assert done.status == 2
    assert "was ended by signal 9 and left no record" in done.err


def test_comments_silence_what_was_observed(program: Path, observe: Observe) -> None:
    line = "    cudart.cudaMemcpyAsync(b, a, 64, D2D, two)"
    program.write_text(program.read_text().replace(line, f"{line}  # streamlint: ignore[SL101]"))
    assert observe(program).status == 0


def test_modules_and_forks(program: Path) -> None:
    (program.parent / "runs.py").write_text(
        "import multiprocessing, program\n"
        "if __name__ == '__main__':\n"
        "    child = multiprocessing.get_context('fork').Process(target=program.race, args=(True,))\n"
        "    child.start(); child.join(); print('child', child.exitcode); program.race(False)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "streamlint", "confirm", "--observe", "-m", "runs"],
        cwd=program.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "child 0" in done.stdout, done.stderr
    assert "program.py:18" in done.stdout, done.stdout + done.stderr


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["confirm", "--observe", "nowhere.py"]) == 2
    assert "nowhere.py is not a file" in capsys.readouterr().err


def test_a_report_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plain.py").write_text("x = 1\n")
    report = tmp_path / "no" / "report.json"
    arguments = ["confirm", "--observe", "--output", str(report), str(tmp_path / "plain.py")]
    assert cli.main(arguments) == 2
    assert f"error: cannot write {report}: No such file or directory" in capsys.readouterr().err


STARTS = {
    "scripts": """\
import subprocess, sys
for words in (["racing"], ["wait"]):
    subprocess.run([sys.executable, "-u", "program.py", *words], check=True)
""",
    "modules": """\
import subprocess, sys
for words in (["racing"], ["wait"]):
    subprocess.run([sys.executable, "-m", "program", *words], check=True)
""",
    "spawned": """\
import multiprocessing, program
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=program.race, args=(wait,)) for wait in (False, True)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
""",
    "forked": """\
import multiprocessing, program
context = multiprocessing.get_context("fork")
workers = [context.Process(target=program.race, args=(wait,)) for wait in (False, True)]
[worker.start() for worker in workers]
[worker.join() for worker in workers]
""",
}


@needs_columns
@pytest.mark.parametrize("how", STARTS)
def test_processes_that_a_program_starts_are_observed(
    program: Path, how: str, observe: Observe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(program.parent)
    starter = program.parent / "starter.py"
    starter.write_text(STARTS[how])
    done = observe(starter)
    assert done.status == 1, done.out + done.err
    assert "1 finding" in done.out
    assert "of 2 processes" in done.out
    assert done.err == ""
