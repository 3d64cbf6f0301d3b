"""``streamlint doctor``: its experiments on a simulated driver, its table, and its processes."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlint import cli
from streamlint.confirm import doctor
from streamlint.confirm.doctor import child, command, examine
from streamlint.confirm.doctor.axiom import (
    ORDERED,
    UNORDERED,
    WAITS,
    Axiom,
    Basis,
    Group,
    Result,
    SkippedError,
    Verdict,
)
from streamlint.confirm.doctor.devices import DEVICES
from streamlint.confirm.doctor.examine import Entry, Examination
from streamlint.confirm.doctor.handoffs import hand_over
from streamlint.confirm.doctor.lab import Lab
from streamlint.confirm.doctor.table import GROUPS
from streamlint.confirm.gpu.driver import Driver, DriverError, DriverUnavailableError
from tests.simulated_cuda import Machine, install

if TYPE_CHECKING:
    from collections.abc import Callable

SEMANTICS = Path(__file__).parent.parent / "docs" / "semantics.md"
AXIOMS = [axiom for group in GROUPS for axiom in group.axioms]
ON_ONE_GPU = [axiom for group in GROUPS if not group.library for axiom in group.axioms if axiom.devices == 1]


def name(axiom: Axiom) -> str:
    return f"{axiom.law} {axiom.case}".replace(" ", "-")


# The experiments


@pytest.mark.parametrize("axiom", ON_ONE_GPU, ids=name)
def test_the_documented_semantics_hold_on_the_simulated_driver(
    axiom: Axiom, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Machine())
    lab = Lab(Driver())
    result = child.perform(lab, axiom, devices=1)
    assert (result.verdict, result.measured) == (Verdict.HOLDS, axiom.expected)
    lab.clean()


FAULTS = {
    "legacy barrier": {
        "legacy default stream and a blocking stream",
        "legacy default stream and a per-thread default stream",
        "two blocking streams, an operation on the legacy stream between",
        "record on the legacy stream",
        "wait on the legacy stream",
    },
    "events": {
        "record after the work, then wait",
        "the event is recorded again after the wait was issued",
        "the event is destroyed after the wait was issued",
        "from one stream to a second to a third, by two events",
        "wait on the legacy stream",
        "record on the legacy stream",
    },
    "non-blocking streams": {
        "legacy default stream and a non-blocking stream",
        "synchronize the legacy stream",
        "record on the legacy stream",
    },
    "blocking free": {"cudaFree (of cudaMalloc), cudaFreeHost, cudaHostUnregister"},
    "asynchronous copies": {
        "cudaMemcpyAsync, pinned, either way",
        "cudaMemcpyAsync from pageable memory, up to about 1 MB",
    },
    "callback errors": {
        "a copy, allocation, free, stream creation or device synchronize of the driver API there"
    },
    "capture errors": {
        "synchronize or query the capturing stream, synchronize the device",
        "cudaMalloc during a capture",
        "a fork that is not joined",
        "wait for an event recorded outside the capture",
        "synchronize an event recorded in the capture",
    },
    "graph launches": {"two launches of one executable graph, on any streams"},
}
"""What is switched off in the driver, and laws that must then be seen not to hold."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_driver_that_breaks_a_law_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Machine(frozenset({fault})))
    lab = Lab(Driver())
    failing = set()
    for axiom in ON_ONE_GPU:
        if axiom.law in FAULTS[fault]:
            if child.perform(lab, axiom, devices=1).verdict is Verdict.FAILS:
                failing.add(axiom.law)
            lab.clean()
    assert failing == FAULTS[fault]


def raising(error: Exception) -> Axiom:
    def measure(lab: Lab) -> str:
        raise error

    return Axiom("a law", "ordered", Basis.GUARANTEED, measure)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (DriverError("cuEventRecord returned X (1)"), Verdict.FAILS),
        (SkippedError("no such thing here"), Verdict.NOT_TESTED),
        (AttributeError("the library has no such name"), Verdict.NOT_TESTED),
    ],
)
def test_an_experiment_that_raises(
    error: Exception, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Machine())
    result = child.perform(Lab(Driver()), raising(error), devices=1)
    assert result.verdict is verdict
    assert str(error) in result.measured


def test_one_gpu_is_not_two(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Machine())
    axiom = next(axiom for axiom in AXIOMS if axiom.devices == 2)
    assert child.perform(Lab(Driver()), axiom, devices=1) == Result(Verdict.NOT_TESTED, "needs two GPUs")


@pytest.mark.parametrize(
    ("take", "seen"),
    [
        (lambda lab, giver, taker: lab.order(giver, taker), ORDERED),
        (lambda lab, giver, taker: lab.order(taker, giver), UNORDERED),
        (lambda lab, giver, _: lab.call("cuStreamSynchronize", giver), WAITS),
    ],
)
def test_who_waits_when_memory_is_handed_over(
    take: Callable[[Lab, int, int], object], seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Machine())
    lab = Lab(Driver())
    giver, taker = lab.non_blocking(), lab.non_blocking()
    assert hand_over(lab, giver, taker, lambda: take(lab, giver, taker)) == seen
    lab.clean()


@pytest.mark.parametrize("axiom", DEVICES.axioms, ids=name)
def test_experiments_for_two_gpus_can_be_made(axiom: Axiom, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated devices share their streams' rules, so only that an answer comes out is checked."""
    install(monkeypatch, Machine(), devices=2)
    result = child.perform(Lab(Driver()), axiom, devices=2)
    assert result.verdict is not Verdict.NOT_TESTED, result.measured
    assert re.fullmatch("ordered|not ordered|waits|returns at once|success|error \\d+", result.measured)


# The laws


def plain(cell: str) -> str:
    return re.sub(r"\*\*.*?\*\* |[`*]", "", cell).strip()


def rows() -> dict[str, dict[str, str]]:
    """The marked rows of docs/semantics.md: under each heading, from the first cell to the mark."""
    found: dict[str, dict[str, str]] = {}
    section = ""
    for line in SEMANTICS.read_text("utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:]
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        mark = next((cell for cell in cells[1:] if re.match(r"[GM]($|[ ,])", cell)), None)
        if mark is not None:
            found.setdefault(section, {})[plain(cells[0])] = mark
    return found


def row_of(section: str, axiom: Axiom) -> str:
    """The row that an axiom is about; of a long first cell it may name the beginning."""
    laws = rows()[section]
    if axiom.law in laws:
        return axiom.law
    (law,) = [law for law in laws if law.startswith(axiom.law)]
    return law


def not_measured() -> set[str]:
    text = SEMANTICS.read_text("utf-8").partition("## What doctor does not measure")[2]
    return set(re.findall(r"^\* (.*?):", text, re.MULTILINE))


def test_every_marked_law_is_measured_or_listed_as_not() -> None:
    exempt = not_measured()
    for section, laws in rows().items():
        own = [axiom for group in GROUPS if group.section == section for axiom in group.axioms]
        measured = {row_of(section, axiom) for axiom in own}
        for law in laws:
            assert (law in measured) != (law in exempt), (section, law)


def test_every_axiom_is_a_law_with_its_mark() -> None:
    words = {Basis.GUARANTEED: "G", Basis.MEASURED: "M", Basis.OBSERVED: r"M only|against M"}
    table = rows()
    for group in GROUPS:
        for axiom in group.axioms:
            mark = table[group.section][row_of(group.section, axiom)]
            assert re.search(words[axiom.basis], mark), (axiom.law, mark)


def test_each_experiment_has_a_name_of_its_own() -> None:
    keys = [(group.section, axiom.law, axiom.case) for group in GROUPS for axiom in group.axioms]
    assert len(set(keys)) == len(keys)


# The command


def examination(*verdicts: Verdict) -> Examination:
    entries = [
        Entry(
            "Streams" if n < 2 else "Events",
            axiom,
            Result(verdict, axiom.expected if verdict is Verdict.HOLDS else "seen"),
        )
        for n, (axiom, verdict) in enumerate(zip(AXIOMS, verdicts, strict=False))
    ]
    return Examination(entries, {"GPU": "one", "torch": "2.11"})


def test_exit_status() -> None:
    holds, fails, not_tested = Verdict
    assert command.exit_status(examination(holds, not_tested)) == 0
    assert command.exit_status(examination(holds, fails, not_tested)) == 1
    assert command.exit_status(examination(not_tested, not_tested)) == 2


def test_the_table() -> None:
    shown = command.text(examination(Verdict.HOLDS, Verdict.FAILS, Verdict.NOT_TESTED))
    lines = shown.splitlines()
    assert lines[0] == "Streams"
    assert re.fullmatch(r"  holds       guaranteed  two operations on one stream +ordered", lines[1])
    assert re.fullmatch(
        r"  fails       guaranteed  two non-.* event +expected not ordered, measured seen", lines[2]
    )
    assert lines[4] == "Events"
    assert lines[-2:] == ["GPU one, torch 2.11", "1 hold, 1 fail, 1 not tested"]
    assert "  holds" not in command.text(examination(Verdict.HOLDS, Verdict.FAILS), every=False)


def test_a_long_law_keeps_what_tells_its_cases_apart() -> None:
    for axiom in AXIOMS:
        entry = Entry("s", axiom, Result(Verdict.HOLDS, axiom.expected))
        (_, row, *_) = command.text(Examination([entry])).splitlines()
        assert f"{axiom.case})" in row or not axiom.case
        assert row[102:] == axiom.expected, "the columns stand in line"


def test_json() -> None:
    document = json.loads(command.as_json(examination(Verdict.HOLDS, Verdict.FAILS)))
    assert document["summary"] == {"holds": 1, "fails": 1, "not tested": 0}
    assert document["axioms"][0] == {
        "section": "Streams",
        "library": "",
        "law": "two operations on one stream",
        "case": "",
        "basis": "guaranteed",
        "expected": "ordered",
        "measured": "ordered",
        "verdict": "holds",
        "seconds": 0.0,
    }


def test_without_a_gpu_it_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise DriverUnavailableError("no CUDA driver (libcuda.so.1) on this machine")

    monkeypatch.setattr(command, "Driver", missing)
    assert cli.main(["doctor"]) == 2
    assert capsys.readouterr() == (
        "",
        "streamlint: doctor needs an NVIDIA GPU: no CUDA driver (libcuda.so.1) on this machine\n",
    )


def test_the_whole_command_on_the_simulated_driver(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Machine())

    def here(groups: tuple[Group, ...], python: str) -> Examination:
        assert groups is GROUPS
        lab = Lab(Driver())
        axiom = groups[0].axioms[0]
        return Examination([Entry(groups[0].section, axiom, child.perform(lab, axiom, 1))])

    monkeypatch.setattr(command, "examine", here)
    assert doctor.main([]) == 0
    assert capsys.readouterr().out.endswith("GPU simulated, CUDA driver API 13.0\n1 hold\n")


# The processes

CHILD = """\
#!{python}
import json, os, sys, time

library = sys.argv[-1]
starts = {starts!r}
with open(starts, "a") as file:
    print(library, file=file)
if library:
    print(json.dumps({{"library": library, "version": "1.0"}}), flush=True)
wanted = json.loads(sys.stdin.readline())
if library == "missing":
    print(json.dumps({{"fatal": "missing cannot be imported"}}), flush=True)
    sys.exit()
for group, number in wanted:
    if number == 1 and library == "crashes":
        os.kill(os.getpid(), 11)
    if number == 1 and library == "hangs":
        time.sleep(60)
    print(json.dumps({{"result": ["holds", f"{{group}} {{number}}", 0.1]}}), flush=True)
    if number == 0 and library == "breaks":
        sys.exit()
"""


@pytest.fixture
def python(tmp_path: Path) -> str:
    path = tmp_path / "python"
    path.write_text(CHILD.format(python=sys.executable, starts=str(tmp_path / "starts")), "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return str(path)


def three(library: str) -> Group:
    never = raising(AssertionError())
    return Group("Streams", (never, never, never), library)


def verdicts(found: Examination) -> list[Verdict]:
    return [entry.result.verdict for entry in found.entries]


def test_results_come_in_the_order_of_the_groups(python: str) -> None:
    found = examine.examine((three(""), three("a"), three("")), python)
    assert [entry.result.measured for entry in found.entries] == [
        f"{g} {n}" for g in range(3) for n in range(3)
    ]
    assert found.versions == {"a": "1.0"}


def test_a_crash_costs_one_experiment(python: str) -> None:
    found = examine.examine((three("crashes"), three("")), python)
    # The first is made; the process dies in the second; the third is made in another process.
    assert verdicts(found) == [Verdict.HOLDS, Verdict.FAILS, *[Verdict.HOLDS] * 4]
    assert found.entries[1].result.measured == "the process ended with status -11"


def test_an_error_that_stays_costs_no_experiment(python: str, tmp_path: Path) -> None:
    assert verdicts(examine.examine((three("breaks"),), python)) == [Verdict.HOLDS] * 3
    assert (tmp_path / "starts").read_text().split() == ["breaks", "breaks"]


def test_a_hang_costs_one_experiment(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "TIMEOUT_S", 1.0)
    found = examine.examine((three("hangs"),), python)
    assert verdicts(found) == [Verdict.HOLDS, Verdict.FAILS, Verdict.HOLDS]
    assert found.entries[1].result.measured == "did not end within 1 s"


def test_a_missing_library_is_not_tested(python: str) -> None:
    found = examine.examine((three("missing"), three("")), python)
    assert verdicts(found) == [*[Verdict.NOT_TESTED] * 3, *[Verdict.HOLDS] * 3]
    assert found.entries[0].result.measured == "missing cannot be imported"


def test_the_real_child_says_what_is_missing() -> None:
    found = examine.examine((Group("Streams", (AXIOMS[0],), "cupy_that_nobody_has"),))
    assert verdicts(found) == [Verdict.NOT_TESTED]
    assert "cupy_that_nobody_has cannot be imported" in found.entries[0].result.measured


def test_the_child_needs_only_the_standard_library() -> None:
    """It may run with an interpreter in which nothing of streamlint is installed."""
    others = ("networkx", "typing_extensions", "pathspec")
    code = f"import sys; sys.modules.update(dict.fromkeys({others})); import streamlint.confirm.doctor.child"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.gpu
def test_all_that_is_guaranteed_holds_here() -> None:
    try:
        Driver()
    except DriverUnavailableError as error:
        pytest.skip(str(error))
    found = examine.examine(GROUPS)
    assert [entry for entry in found.entries if entry.result.verdict is Verdict.FAILS] == []
