"""Whole programs with a fake GPU: instrumented on import, in all their processes, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from streamlint.confirm.text.instrument import Place
from streamlint.confirm.verdict import Verdict
from streamlint.witness import ByDeadlock, ByError, ByTime, ByValue, NoWitness
from tests.confirm_program_support import WORK, Workshop, workshop
from tests.confirm_support import alive

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["workshop"]


def test_a_race_in_a_module_of_a_script_is_shown(workshop: Workshop) -> None:
    script = workshop.write("main.py", "import sys, work\nprint(work.step(sys.argv[1] == 'ordered'))\n")
    before = (workshop.folder / "work.py").read_bytes()
    (racing,) = workshop.confirm(sys.executable, str(script), "racing")
    assert racing.decision.verdict is Verdict.CONFIRMED, racing.decision
    assert racing.decision.difference is not None
    shown = racing.decision.difference
    assert (shown.place, shown.reference, shown.gated) == ("y[0]", "7", "0")
    assert racing.environment["GPU"] == "lists"
    (ordered,) = workshop.confirm(sys.executable, str(script), "ordered")
    assert ordered.decision.verdict is Verdict.ORDERED, ordered.decision
    assert (workshop.folder / "work.py").read_bytes() == before


def test_a_script_itself_is_woven(workshop: Workshop) -> None:
    text = WORK + "\nimport sys\nif __name__ == '__main__':\n    step(sys.argv[1:] == ['--ordered'])\n"
    script = workshop.write("train.py", text)
    plan = workshop.plan("train.py")
    (racing,) = workshop.confirm(sys.executable, "-X", "dev", str(script), plans=[plan])
    assert racing.decision.verdict is Verdict.CONFIRMED, racing.decision
    (ordered,) = workshop.confirm(sys.executable, str(script), "--ordered", plans=[plan])
    assert ordered.decision.verdict is Verdict.ORDERED, ordered.decision


def test_statements_of_a_module_body_are_woven(workshop: Workshop) -> None:
    script = workshop.write(
        "flat.py",
        """\
        import fakegpu
        a, b = fakegpu.Stream(), fakegpu.Stream()
        x, y = fakegpu.Array(0), fakegpu.Array(0)
        fakegpu.copy(x, fakegpu.Array(7), stream=a)
        fakegpu.copy(y, x, stream=b)
        """,
    )
    (done,) = workshop.confirm(sys.executable, str(script), plans=[workshop.plan("flat.py")])
    assert done.decision.verdict is Verdict.CONFIRMED, done.decision


def test_a_module_run_by_name_and_its_child_processes_are_woven(workshop: Workshop) -> None:
    workshop.write(
        "main.py", "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'child'], check=True)\n"
    )
    workshop.write("child.py", WORK + "\nstep(False)\n")
    (done,) = workshop.confirm(sys.executable, "-m", "main", plans=[workshop.plan("child.py")])
    assert done.decision.verdict is Verdict.CONFIRMED, done.decision


def test_spawned_workers_read_the_main_script_with_probes(workshop: Workshop) -> None:
    script = workshop.write(
        "spawning.py",
        WORK
        + textwrap.dedent("""\

        import multiprocessing

        def work():
            step(False)

        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=work)
            process.start()
            process.join()
        """),
    )
    (done,) = workshop.confirm(sys.executable, str(script), plans=[workshop.plan("spawning.py")])
    assert done.decision.verdict is Verdict.CONFIRMED, done.decision


def test_test_modules_are_woven_under_pytest(workshop: Workshop) -> None:
    workshop.write(
        "test_it.py", WORK + "\ndef test_step():\n    step(False)\n\ndef test_other():\n    assert True\n"
    )
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py", "-k", "step")
    (done,) = workshop.confirm(*command, plans=[workshop.plan("test_it.py")])
    assert done.decision.verdict is Verdict.CONFIRMED, done.decision


LOOP = """\
import fakegpu

streams = [fakegpu.Stream() for _ in range(3)]
results = [fakegpu.Array(0) for _ in range(3)]
for result, stream in zip(results, streams):
    fakegpu.copy(result, fakegpu.Array(7), stream=stream)
reader, total = fakegpu.Stream(), fakegpu.Array(0)
for stream in streams[:2]:
    fakegpu.wait(reader, stream)
for result in results:
    fakegpu.copy(total, result, stream=reader)
fakegpu.synchronize()
"""


def test_each_of_the_first_executions_is_held_back_alone(workshop: Workshop) -> None:
    script = workshop.write("loop.py", LOOP)
    plan = workshop.plan("loop.py", "copy(result", "copy(total")
    (done,) = workshop.confirm(sys.executable, str(script), plans=[plan])
    assert done.decision.verdict is Verdict.CONFIRMED, done.decision
    script.write_text(LOOP.replace("streams[:2]", "streams"), "utf-8")
    (done,) = workshop.confirm(sys.executable, str(script), plans=[plan])
    assert done.decision.verdict is Verdict.ORDERED, done.decision


def test_a_statement_that_waits_by_itself_shows_no_order(workshop: Workshop) -> None:
    text = "import fakegpu\nx, y = fakegpu.Array(0), fakegpu.Array(0)\nside = fakegpu.Stream()\n"
    text += "fakegpu.write(fakegpu.fetch(x), fakegpu.Array(7))\nfakegpu.copy(y, x, stream=side)\n"
    script = workshop.write("waits.py", text)
    plan = workshop.plan("waits.py", "write(", "copy(y")
    (done,) = workshop.confirm(sys.executable, str(script), plans=[plan])
    assert (done.decision.verdict, "itself waited" in done.decision.reason) == (Verdict.ORDERED, True)


def test_the_other_device_is_held_back_where_the_finding_is_about_two(workshop: Workshop) -> None:
    text = """\
    import fakegpu
    side, x, y = fakegpu.Stream(), fakegpu.Array(0), fakegpu.Array(0)
    fakegpu.copy_there(x, fakegpu.Array(7))
    fakegpu.copy(y, x, stream=side)
    fakegpu.synchronize()
    """
    script = workshop.write("two.py", text)
    one = workshop.plan("two.py", "copy_there", "copy(y")
    plans = [one, replace(one, witness=ByValue(gpus=2))]
    done = workshop.confirm(sys.executable, str(script), plans=plans)
    assert [c.decision.verdict for c in done] == [Verdict.UNORDERED, Verdict.CONFIRMED], done


ENDINGS = {
    "exits at once": "import os\nos._exit(0)",
    "prints bytes": "import os\nos.write(1, bytes(range(256)) * 5000)\nos.write(2, bytes(range(256)))",
    "forks": "import os\npid = os.fork()\nif pid == 0:\n    step(False)\n    os._exit(0)\nos.waitpid(pid, 0)",
    "is killed later": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_a_program_does_after_the_race_does_not_matter(workshop: Workshop, ending: str) -> None:
    script = workshop.write("ending.py", WORK + "\nstep(False)\n" + ENDINGS[ending] + "\n")
    (done,) = workshop.confirm(sys.executable, str(script), plans=[workshop.plan("ending.py")])
    if ending == "is killed later":
        assert done.decision.verdict is Verdict.NOT_RUN
        assert "SIGKILL" in done.decision.reason
    else:
        assert done.decision.verdict is Verdict.CONFIRMED, done.decision


def test_a_race_in_a_forked_process_is_shown(workshop: Workshop) -> None:
    text = (
        WORK
        + "\nimport os\npid = os.fork()\nif pid == 0:\n    step(False)\n    os._exit(0)\nos.waitpid(pid, 0)\n"
    )
    script = workshop.write("forking.py", text)
    (done,) = workshop.confirm(sys.executable, str(script), plans=[workshop.plan("forking.py")])
    assert done.decision.verdict is Verdict.CONFIRMED, done.decision


def test_a_crash_and_a_hang_leave_the_other_findings_their_verdicts(workshop: Workshop) -> None:
    script = workshop.write(
        "both.py",
        WORK
        + textwrap.dedent("""\

        def hang(z):
            fakegpu.copy(z, z, stream=fakegpu.Stream())
            if fakegpu.waiting():
                fakegpu.hang()

        step(False)
        hang(fakegpu.Array(0))
        """),
    )
    race = workshop.plan("both.py")
    hanging = workshop.plan("both.py", "copy(z", "if fakegpu.waiting")
    started = time.monotonic()
    done = workshop.confirm(sys.executable, str(script), plans=[race, hanging], timeout_s=5)
    assert time.monotonic() - started < 60
    assert [c.decision.verdict for c in done] == [Verdict.CONFIRMED, Verdict.NOT_RUN], done
    assert "did not end within 5 s" in done[1].decision.reason


def test_a_program_without_the_place_is_not_reached(workshop: Workshop) -> None:
    script = workshop.write("main.py", "import work\nraise SystemExit('no data')\n")
    (done,) = workshop.confirm(sys.executable, str(script))
    assert done.decision.verdict is Verdict.NOT_REACHED
    assert "no data" in done.decision.reason


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("true",), "did not load the probes"),
        ((sys.executable, "-I", "-c", "pass"), "did not load the probes"),
        (("there-is-no-such-program",), "there-is-no-such-program: No such file"),
    ],
)
def test_programs_that_cannot_be_woven_say_so(
    workshop: Workshop, command: tuple[str, ...], reason: str
) -> None:
    (done,) = workshop.confirm(*command)
    assert done.decision.verdict is Verdict.NOT_RUN
    assert reason in done.decision.reason


def test_values_that_differ_by_themselves_are_noise(workshop: Workshop) -> None:
    text = WORK.replace(
        "fakegpu.Array(7)", "fakegpu.Array(int.from_bytes(__import__('os').urandom(3), 'big'))"
    )
    script = workshop.write("noisy.py", text + "\nstep(False)\n")
    (done,) = workshop.confirm(
        sys.executable, str(script), plans=[workshop.plan("noisy.py", "copy(x", "copy(y")]
    )
    assert done.decision.verdict is Verdict.NOISY, done.decision


def test_an_exit_status_that_only_the_delay_brings_is_confirmed(workshop: Workshop) -> None:
    text = (
        WORK + "\na = fakegpu.Stream()\nx = fakegpu.Array(0)\nproduce(x, a)\nassert x[0] == 7, 'too early'\n"
    )
    script = workshop.write("checks.py", text)
    plan = workshop.plan("checks.py", "copy(x", "copy(y")
    (done,) = workshop.confirm(sys.executable, str(script), plans=[plan])
    assert done.decision.verdict is Verdict.CONFIRMED, done.decision
    assert done.decision.difference is not None
    assert done.decision.difference.place == "exit status"


def test_errors_are_evidence_even_if_the_program_hides_them(workshop: Workshop) -> None:
    script = workshop.write("refused.py", "import fakegpu\n\ndef f():\n    fakegpu.refuse()\n\nf()\n")
    plan = workshop.plan("refused.py", None, "fakegpu.refuse()", ByError(frozenset({900})))
    other = workshop.plan("refused.py", None, "fakegpu.refuse()", ByError(frozenset({904})))
    done = workshop.confirm(sys.executable, str(script), plans=[plan, other])
    assert [c.decision.verdict for c in done] == [Verdict.CONFIRMED, Verdict.ORDERED], done
    assert "line 4" in done[0].decision.reason


def test_a_deadlock_is_a_program_that_does_not_end(workshop: Workshop) -> None:
    script = workshop.write("stuck.py", "import fakegpu\nfakegpu.hang()\n")
    plan = workshop.plan("stuck.py", None, "fakegpu.hang()", ByDeadlock())
    (done,) = workshop.confirm(sys.executable, str(script), plans=[plan], timeout_s=3)
    assert done.decision.verdict is Verdict.CONFIRMED, done.decision
    # Without the place of the finding it must end.
    script.write_text("import fakegpu\nfakegpu.hang()\nfakegpu.hang()\n", "utf-8")
    (done,) = workshop.confirm(sys.executable, str(script), plans=[plan], timeout_s=3)
    assert done.decision.verdict is Verdict.NOISY, done.decision
    # Being slow somewhere else is no deadlock.
    script.write_text("import fakegpu\nif fakegpu.quiet():\n    fakegpu.hang()\nfakegpu.hang()\n", "utf-8")
    plan = replace(plan, later=Place(2))
    (done,) = workshop.confirm(sys.executable, str(script), plans=[plan], timeout_s=3)
    assert done.decision.verdict is Verdict.NOT_RUN, done.decision


def test_the_time_that_the_host_waits_is_measured(workshop: Workshop) -> None:
    text = "import fakegpu\ns = fakegpu.Stream()\nx = fakegpu.Array(0)\nfakegpu.copy(x, x, stream=s)\n"
    for call, expected in (("pause", Verdict.CONFIRMED), ("look", Verdict.ORDERED)):
        script = workshop.write("timed.py", f"{text}fakegpu.{call}(x)\n")
        plan = workshop.plan("timed.py", "copy(x", f"fakegpu.{call}", ByTime())
        (done,) = workshop.confirm(sys.executable, str(script), plans=[plan])
        assert done.decision.verdict is expected, done.decision


def test_findings_without_a_witness_start_nothing(workshop: Workshop) -> None:
    plans = [
        workshop.plan(witness=NoWitness("it is so")),
        workshop.plan(witness=ByValue(names_earlier=False)),
    ]
    done = workshop.confirm("there-is-no-such-program", plans=plans[:1])
    assert [c.decision.reason for c in done] == ["nothing shows it: it is so"]
    done = workshop.confirm(sys.executable, "-c", "pass", plans=plans[1:])
    assert "names no earlier operation" in done[0].decision.reason


def test_nothing_that_a_program_started_is_left(workshop: Workshop, tmp_path: Path) -> None:
    # Started in a session of its own, with its parent gone: no group and no parent leads to it.
    script = workshop.write(
        "leaving.py",
        f"""\
        import subprocess, sys
        keep = "import os, time; open({str(tmp_path / "pid")!r}, 'w').write(str(os.getpid())); time.sleep(60)"
        subprocess.Popen([sys.executable, "-c", keep], start_new_session=True)
        import time
        time.sleep(1)
        """,
    )
    workshop.confirm(sys.executable, str(script))
    assert not alive(int((tmp_path / "pid").read_text("ascii")))


def test_an_interrupt_leaves_no_process_and_no_file(workshop: Workshop, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    script = workshop.write(
        "slow.py",
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n",
    )
    driver = workshop.write(
        "driver.py",
        f"""\
        import signal, sys
        from pathlib import Path
        # Shells start background jobs with the signal ignored, and pytest may be one.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from streamlint.confirm.text.instrument import Place
        from streamlint.confirm.plan.plans import Plan
        from streamlint.confirm.run.program import Program, cases_of
        from streamlint.confirm.run.server import Limits
        here = Path({str(tmp_path)!r})
        plan = Plan(here / "work.py", here, "", Place(4), Place(7))
        Program([sys.executable, {str(script)!r}], cases_of([plan]), Limits()).confirm(print)
        """,
    )
    environment = {**os.environ, "TMPDIR": str(temporary)}
    process = subprocess.Popen([sys.executable, str(driver)], env=environment, stderr=subprocess.DEVNULL)
    started = tmp_path / "pid"
    for _ in range(1200):
        if started.exists() and started.read_text("ascii"):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    try:
        process.wait(20)
    finally:
        process.kill()
    assert not alive(int(started.read_text("ascii")))
    assert list(temporary.iterdir()) == []


HIDING = """\
import fakegpu

def f():
    fakegpu.raises()

def g():
    fakegpu.quiet()

try:
    f()
except RuntimeError:
    pass
g()
"""


def test_a_hidden_error_belongs_to_the_finding_whose_line_it_left(workshop: Workshop) -> None:
    script = workshop.write("hiding.py", HIDING)
    witness = ByError(frozenset({900}))
    plans = [workshop.plan("hiding.py", None, f"fakegpu.{call}()", witness) for call in ("raises", "quiet")]
    done = workshop.confirm(sys.executable, str(script), plans=plans)
    assert [c.decision.verdict for c in done] == [Verdict.CONFIRMED, Verdict.ORDERED], done
    assert "line 4" in done[0].decision.reason


def test_the_capture_that_ends_with_an_error_tells_of_the_finding_in_it(workshop: Workshop) -> None:
    text = """\
    import fakegpu

    def f():
        x = 1
        fakegpu.raises()

    f()
    """
    script = workshop.write("ending.py", text)
    plan = workshop.plan("ending.py", None, "x = 1", ByError(frozenset({900})))
    (alone,) = workshop.confirm(sys.executable, str(script), plans=[plan])
    assert alone.decision.verdict is Verdict.ORDERED
    ends = (str(script), Place(workshop.line("ending.py", "fakegpu.raises")))
    (done,) = workshop.confirm(sys.executable, str(script), plans=[replace(plan, related=(ends,))])
    assert done.decision.verdict is Verdict.CONFIRMED, done.decision


def test_processes_of_one_program_are_told_apart(workshop: Workshop) -> None:
    rank = "Array(int(__import__('os').environ['RANK']))"
    workshop.write("rank.py", WORK.replace("Array(7)", rank) + "\nstep(True)\n")
    script = workshop.write(
        "ranks.py",
        """\
        import os, random, subprocess, sys
        ranks = [1, 2, 3, 4]
        random.shuffle(ranks)
        for rank in ranks:
            subprocess.run([sys.executable, "rank.py"], env={**os.environ, "RANK": str(rank)}, check=True)
        """,
    )
    (done,) = workshop.confirm(sys.executable, str(script), plans=[workshop.plan("rank.py")])
    assert done.decision.verdict is Verdict.ORDERED, done.decision


def test_a_device_that_only_the_delay_breaks_is_evidence(workshop: Workshop) -> None:
    breaks = (
        "\na = fakegpu.Stream()\nx = fakegpu.Array(0)\nproduce(x, a)\nif x[0] != 7:\n    fakegpu.corrupt()\n"
    )
    script = workshop.write("breaking.py", WORK + breaks + "consume(x, x, a)\n")
    plan = workshop.plan("breaking.py", "copy(x", "copy(y")
    (done,) = workshop.confirm(sys.executable, str(script), plans=[plan])
    assert done.decision.verdict is Verdict.CONFIRMED, done.decision
    assert done.decision.difference is not None
    assert "ILLEGAL_ADDRESS" in done.decision.difference.gated


def test_a_device_that_is_always_broken_is_no_evidence(workshop: Workshop) -> None:
    script = workshop.write("broken.py", WORK + "\nfakegpu.corrupt()\nstep(False)\n")
    (done,) = workshop.confirm(sys.executable, str(script), plans=[workshop.plan("broken.py")])
    assert done.decision.verdict is not Verdict.CONFIRMED, done.decision


def test_what_the_host_only_passes_on_is_compared(workshop: Workshop) -> None:
    """``print(host.sum())`` puts what it reads too early into no variable; a time is no evidence."""
    script = workshop.write(
        "passes_on.py",
        """\
        import sys, time
        import fakegpu

        def total(host):
            return float(host[0])

        def main(ordered):
            a = fakegpu.Stream()
            x, host = fakegpu.Array(0), fakegpu.Array(0)
            fakegpu.copy(x, fakegpu.Array(7), stream=a)
            if ordered:
                fakegpu.synchronize()
            print(time.perf_counter(), total(x))

        main("--ordered" in sys.argv)
        """,
    )
    plan = workshop.plan("passes_on.py", "fakegpu.copy(x", "print(")
    (racing,) = workshop.confirm(sys.executable, str(script), plans=[plan])
    assert racing.decision.verdict is Verdict.CONFIRMED, racing.decision
    shown = racing.decision.difference
    assert shown is not None
    assert (shown.place, shown.reference, shown.gated) == ("result of call 2", "7.0", "0.0")
    (ordered,) = workshop.confirm(sys.executable, str(script), "--ordered", plans=[plan])
    assert ordered.decision.verdict is Verdict.ORDERED, ordered.decision
