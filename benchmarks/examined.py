"""How many bugs of programs that others wrote are found, and how many of their right programs give a finding.

Usage: python benchmarks/examined.py [--each] [SET...]

A set is a folder of programs that somebody wrote who had read nothing of streamlint: wrong ones
(``bug_*.py``), each after a public thread, and right ones (``ok_*.py``). ``index.jsonl`` has a line for
each: its ``file``, ``source``, ``kind``, ``why`` it is wrong or right, and the ``lines`` at which a report is
one of the bug; of a program of several files its folder, and the ``places``. Without sets those beside this
file are taken.

A bug is found if a finding stands at one of its lines; *with its other places* also counts what a finding
names beside that. A set says something about code that nobody has seen only in its first run.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.api import check_paths, check_source
from streamlint.finding import Confidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.finding import Finding
    from streamlint.source import Span

SETS = Path(__file__).with_name("examined")


@dataclass(frozen=True, slots=True)
class Program:
    path: Path
    """A file, or a folder of files that belong together."""
    places: tuple[tuple[str, int, int], ...]
    """The file, the first and the last line of each place of the bug; none of a right program."""

    @property
    def is_wrong(self) -> bool:
        return bool(self.places)

    def has(self, span: Span) -> bool:
        path = f"/{span.path}"
        return any(
            path.endswith(f"/{name}") and first <= span.line <= last for name, first, last in self.places
        )

    def findings(self) -> Sequence[Finding]:
        possible = Confidence.POSSIBLE
        if self.path.is_dir():
            return check_paths([self.path], min_confidence=possible, jobs=1).findings
        return check_source(self.path.read_text("utf-8"), str(self.path), min_confidence=possible).findings


def programs(folder: Path) -> Iterator[Program]:
    """Those of a set, in the order of its index: ``lines`` of one file, or ``places`` of several."""
    for text in (folder / "index.jsonl").read_text("utf-8").splitlines():
        row = json.loads(text)
        places = row.get("places", [(row["file"], first, last) for first, last in row.get("lines", [])])
        yield Program(folder / row["file"], tuple((name, first, last) for name, first, last in places))


@dataclass(slots=True)
class Score:
    wrong: int = 0
    right: int = 0
    found: int = 0
    found_beside: int = 0
    alarms: int = 0

    def add(self, program: Program, findings: Sequence[Finding]) -> None:
        if not program.is_wrong:
            self.right += 1
            self.alarms += bool(findings)
            return
        self.wrong += 1
        self.found += any(program.has(one.primary) for one in findings)
        places = (span for one in findings for span in (one.primary, *(r.span for r in one.related)))
        self.found_beside += any(map(program.has, places))

    def __str__(self) -> str:
        return (
            f"{self.found} of {self.wrong} found ({self.found_beside} with its other places), "
            f"{self.alarms} of {self.right} right ones with a finding"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", type=Path, help="folders with an index.jsonl")
    parser.add_argument("--each", action="store_true", help="tell what is found in each program")
    args = parser.parse_args()
    for folder in args.sets or sorted(path.parent for path in SETS.glob("*/index.jsonl")):
        likely, possible = Score(), Score()
        for program in programs(folder):
            findings = program.findings()
            likely.add(program, [one for one in findings if one.confidence is not Confidence.POSSIBLE])
            possible.add(program, findings)
            if args.each:
                told = (f"{one.code} {one.primary.line} {one.confidence.value}" for one in findings)
                print(f"{program.path.name}: {', '.join(told)}")
        print(f"{folder.name}: {likely}")
        print(f"{folder.name}, with what is only possible: {possible}")


if __name__ == "__main__":
    main()
