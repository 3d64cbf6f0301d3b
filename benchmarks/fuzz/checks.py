"""What is watched when a program is analyzed."""

from __future__ import annotations

import ast
import io
import random
import re
import time
import tokenize
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.interp.state.budgets import resident
from streamlint.run.engine import Settings, analyze

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.fuzz.programs import Program, Programs
    from streamlint.finding import Report

ROOT = Path(__file__).parent.parent.parent
SECONDS = 20.0
"""A program of a few hundred lines takes no longer ..."""
BYTES = 1_000_000_000
"""... and makes the process no larger than by this."""


@dataclass
class Trouble:
    """What went wrong with one program."""

    program: Program
    what: str


@dataclass
class Outcome:
    """What a run has seen."""

    kinds: Counter[str] = field(default_factory=Counter)
    findings: int = 0
    slowest: float = 0.0
    troubles: list[Trouble] = field(default_factory=list)


def check(program: Program, outcome: Outcome, *, again: bool) -> Iterator[str]:
    """What is wrong with the analysis of a program; with ``again`` it is run more than once."""
    started, size = time.process_time(), resident()
    report = analyzed(program.data)
    seconds = time.process_time() - started
    outcome.kinds[program.kind] += 1
    outcome.findings += len(report.findings)
    outcome.slowest = max(outcome.slowest, seconds)
    yield from (error.message for error in report.errors if "internal error" in error.message)
    if seconds > SECONDS:
        yield f"took {seconds:.0f} s"
    if resident() - size > BYTES:
        yield f"took {(resident() - size) // 10**6} MB"
    if again and seconds < 2:
        if told(analyzed(program.data)) != told(report):
            yield "a second run tells something else"
        with_comments = commented(program)
        if with_comments is not None:
            changed = meaning(analyzed(with_comments)) ^ meaning(report)
            if changed:
                yield f"a comment changes findings: {min(changed)}"


def analyzed(data: bytes) -> Report:
    path = ROOT / "fuzzed.py"
    return analyze(ROOT, [path], Settings(), overlay={path: data})


def told(report: Report) -> list[str]:
    return [repr(finding) for finding in report.findings] + [repr(error) for error in report.errors]


def meaning(report: Report) -> set[tuple[str, str, str]]:
    """What findings say, wherever they stand."""
    return {
        (f.fingerprint, f.confidence.value, re.sub(r"\bline \d+", "line", f.message)) for f in report.findings
    }


def commented(program: Program) -> bytes | None:
    """The program with comments and blank lines between statements; None if it cannot be parsed."""
    rng = random.Random(f"comments of {program.number}")  # noqa: S311
    try:
        text = program.data.decode()
        tree = ast.parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return None
    # A line after one that ends a statement is in no string and in no bracket.
    ends = sorted({token.start[0] for token in tokens if token.type == tokenize.NEWLINE})
    if not tree.body or not ends or "\r" in text or "\x0c" in text:
        return None
    lines = text.split("\n")
    for end in sorted(rng.sample(ends, min(len(ends), 5)), reverse=True):
        lines[end:end] = rng.choice((["# a comment"], [""], ["", "        # deep", ""]))
    return "\n".join(lines).encode()


def run(programs: Programs, numbers: Iterable[int], every: int = 5) -> Outcome:
    """Checks programs in this process."""
    outcome = Outcome()
    for number in numbers:
        program = programs[number]
        for what in check(program, outcome, again=number % every == 0):
            outcome.troubles.append(Trouble(program, what))
    return outcome
