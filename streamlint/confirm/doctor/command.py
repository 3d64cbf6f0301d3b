"""The command line of ``streamlint doctor``."""

from __future__ import annotations

import argparse
import json
import sys
from itertools import groupby
from typing import TYPE_CHECKING, Any

from streamlint.confirm.doctor.axiom import Verdict
from streamlint.confirm.doctor.examine import Examination, examine
from streamlint.confirm.doctor.table import GROUPS
from streamlint.confirm.gpu.driver import Driver, DriverUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.confirm.doctor.examine import Entry

_EPILOG = """\
Each line is a row of docs/semantics.md: what the analysis takes to be ordered, or not, what blocks
the host, and what fails. Exit status: 0 all holds, 1 something does not, 2 nothing could be measured."""


def main(argv: Sequence[str]) -> int:
    """Run ``streamlint doctor`` with these arguments and return the exit status."""
    options = parser().parse_args(argv)
    try:
        driver = Driver()
    except DriverUnavailableError as error:
        print(f"streamlint: doctor needs an NVIDIA GPU: {error}", file=sys.stderr)
        return 2
    found = examine(GROUPS, options.python)
    found.versions = {"GPU": driver.device_name(), "CUDA driver API": driver.version()} | found.versions
    print(as_json(found) if options.output_format == "json" else text(found, every=not options.failures))
    return exit_status(found)


def exit_status(found: Examination) -> int:
    """Return 1 if anything is not as the model has it, 2 if nothing was measured, else 0."""
    verdicts = {entry.result.verdict for entry in found.entries}
    if Verdict.FAILS in verdicts:
        return 1
    return 0 if Verdict.HOLDS in verdicts else 2


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="streamlint doctor",
        description="Measure on this machine the facts that the analysis rests on.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--python", default=sys.executable, help="interpreter that has the libraries to measure"
    )
    made.add_argument("--failures", action="store_true", help="leave out what holds")
    made.add_argument("--output-format", choices=("text", "json"), default="text")
    return made


def text(found: Examination, *, every: bool = True) -> str:
    """A table under each heading, what was measured with, and a summary."""
    lines: list[str] = []
    for section, entries in groupby(found.entries, key=_heading):
        shown = [e for e in entries if every or e.result.verdict is not Verdict.HOLDS]
        if shown:
            lines += [section, *(f"  {row}" for row in _rows(shown)), ""]
    lines.append(", ".join(f"{name} {version}" for name, version in found.versions.items()))
    words = {Verdict.HOLDS: "hold", Verdict.FAILS: "fail", Verdict.NOT_TESTED: "not tested"}
    counts = ((sum(e.result.verdict is v for e in found.entries), words[v]) for v in Verdict)
    lines.append(", ".join(f"{count} {word}" for count, word in counts if count))
    return "\n".join(lines)


def _heading(entry: Entry) -> str:
    return f"{entry.section}: {entry.library}" if entry.section == "Libraries" else entry.section


_LAW_WIDTH = 74


def _rows(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        axiom, result = entry.axiom, entry.result
        law = _fitted(axiom.law, f" ({axiom.case})" if axiom.case else "")
        wrong = result.verdict is Verdict.FAILS
        seen = f"expected {axiom.expected}, measured {result.measured}" if wrong else result.measured
        yield f"{result.verdict.value:10}  {axiom.basis.value:10}  {law:{_LAW_WIDTH}}  {seen}"


def _fitted(law: str, case: str) -> str:
    """Shortened to the column, before the case, which tells rows apart."""
    if len(law + case) <= _LAW_WIDTH:
        return law + case
    return f"{law[: _LAW_WIDTH - len(case) - 3].rstrip()}...{case}"


def as_json(found: Examination) -> str:
    counts = {v.value: sum(e.result.verdict is v for e in found.entries) for v in Verdict}
    document = {
        "version": 1,
        "axioms": [_axiom(entry) for entry in found.entries],
        "environment": found.versions,
        "summary": counts,
    }
    return json.dumps(document, indent=2)


def _axiom(entry: Entry) -> dict[str, Any]:
    axiom, result = entry.axiom, entry.result
    return {
        "section": entry.section,
        "library": entry.library,
        "law": axiom.law,
        "case": axiom.case,
        "basis": axiom.basis.value,
        "expected": axiom.expected,
        "measured": result.measured,
        "verdict": result.verdict.value,
        "seconds": result.seconds,
    }
