"""What the analyzer says of a program, beside what the oracle says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from benchmarks.random_programs.grow import grown, ordering
from benchmarks.random_programs.oracle import Verdict, verdict
from benchmarks.random_programs.write import written
from streamlint.finding import Confidence, Finding
from streamlint.run.engine import Settings, analyze

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parent
ADVICE = "SL9"
"""What only costs time is not what the oracle judges."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A program that is right, and the same one without one ordering statement."""

    number: int
    library: str
    shape: str
    right: str
    wrong: str
    verdict: Verdict
    """What the oracle says of the second one."""


Told: TypeAlias = "Callable[[Pair, str, str], None]"


@dataclass
class Outcome:
    clean: int = 0
    alarms: int = 0
    racy: int = 0
    found: int = 0
    possible: int = 0
    left_open: int = 0
    missed_by: Counter[str] = field(default_factory=Counter)
    alarms_by: Counter[str] = field(default_factory=Counter)

    def told(self) -> str:
        share = self.found / self.racy if self.racy else 1.0
        return (
            f"{self.alarms} of {self.clean} clean programs with a finding {dict(self.alarms_by)}; "
            f"{self.found} of {self.racy} racy ones found ({share:.3f}), {self.possible} more possible, "
            f"missed {dict(self.missed_by)}; {self.left_open} left open"
        )


def pair_of(seed: int, number: int, *, returns: bool = False) -> Pair:
    rng = Random(f"{seed}:{number}")  # noqa: S311
    program = grown(rng)
    statements = ordering(program)
    changed = program.edited(rng.choice(statements).at, gone=True) if statements else program
    shape = "class" if program.is_class else "helpers" if program.functions else "in one function"
    right, wrong = (written(each, returns=returns) for each in (program, changed))
    return Pair(number, program.library.value, shape, right, wrong, verdict(changed))


def compare(pair: Pair, outcome: Outcome, told: Told) -> None:
    """Judges both programs of a pair and says where the two differ."""
    texts = [(pair.right, Verdict.CLEAN)]
    if pair.wrong != pair.right:
        texts.append((pair.wrong, pair.verdict))
    for text, known in texts:
        found = findings(text)
        sure = any(finding.confidence is not Confidence.POSSIBLE for finding in found)
        kind = f"{pair.library} {pair.shape}"
        match known:
            case Verdict.CLEAN:
                outcome.clean += 1
                outcome.alarms += sure
                if sure:
                    outcome.alarms_by[kind] += 1
                    told(pair, "alarm", text)
            case Verdict.RACES:
                outcome.racy += 1
                outcome.found += sure
                if not sure:
                    outcome.possible += bool(found)
                    outcome.missed_by[kind] += 1
                    told(pair, "possible" if found else "missed", text)
            case Verdict.OPEN:
                outcome.left_open += 1


@lru_cache(maxsize=4)
def findings(text: str) -> tuple[Finding, ...]:
    """What the analyzer finds that concerns order."""
    path = ROOT / "random_program.py"
    report = analyze(ROOT, [path], Settings(evidence=False), overlay={path: text.encode()})
    assert not report.errors, report.errors
    return tuple(finding for finding in report.findings if not finding.code.startswith(ADVICE))


def codes(text: str) -> str:
    return ", ".join(f"{f.code} {f.primary.line} {f.confidence.value}" for f in findings(text))
