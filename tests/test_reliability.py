"""A share of the fuzzing, and the same bytes from each process: see ``docs/reliability.md``."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from benchmarks.fuzz.checks import ROOT, Outcome, analyzed, check, told
from benchmarks.fuzz.programs import Programs


def share() -> str:
    """What is told of some programs, at all confidences; for fixtures see ``tests/test_same_bytes.py``."""
    programs = Programs(4, [ROOT / "fixtures" / "torch"])
    return "".join(f"{number} {told(analyzed(programs[number].data))}\n" for number in range(40))


def test_the_same_bytes_from_each_process() -> None:
    """Here, and in one with another hash seed."""
    first = share()
    assert "SL101" in first
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    other = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from tests.test_reliability import share; sys.stdout.write(share())",
        ],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert first == other.stdout


def test_programs_that_nobody_would_write() -> None:
    """A few of each kind, within seconds; ``python -m benchmarks.fuzz`` runs more."""
    outcome, started = Outcome(), time.process_time()
    programs = Programs(7, [ROOT / "fixtures"])
    for number in range(100):
        program = programs[number]
        assert list(check(program, outcome, again=number % 5 == 0)) == [], (program.kind, number)
        if time.process_time() - started > 20:
            break
    assert len(outcome.kinds) == 4
    assert outcome.findings


def test_a_program_of_a_seed_is_always_the_same() -> None:
    folders = [ROOT / "fixtures" / "torch"]
    assert Programs(1, folders)[5].data == Programs(1, folders)[5].data != Programs(2, folders)[5].data


def test_no_address_reaches_a_message() -> None:
    """Functions, partials and generators as keys of a table: two of them never have one name by chance."""
    program = b"""\
import functools, torch
def f(x: torch.Tensor, side: torch.cuda.Stream):
    table = {f: x, functools.partial(f, x): x, (lambda: x): x}
    with torch.cuda.stream(table[f] or side):
        y = x * 2
    if table[functools.partial(f, x)] == f:
        return y + 1
    return table[f] + y
"""
    messages = [finding.message for finding in analyzed(program).findings]
    assert messages
    assert not any("FuncV" in message or "0x" in message for message in messages)
