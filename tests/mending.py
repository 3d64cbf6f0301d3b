"""The fixtures with their fixes: ``python -m tests.mending [FOLDER]`` counts them, and writes them there.

What is written can be run on a GPU.

A wrong function in which nothing is left to find is called ``..._fixed_ok`` there, and runs as right ones do;
the others, and the right twins, have names by which ``tests/test_confirm_gpu.py`` runs nothing:

    cp -r tests streamlint FOLDER; cd FOLDER; PYTHONPATH=. pytest tests/test_confirm_gpu.py
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.finding import Confidence, Finding, Severity, leading
from streamlint.fixes.edits import applied, compatible
from streamlint.run import engine
from tests.expectations import FIXTURES, fixture_files, functions
from tests.test_confirm_gpu import defined_in, reached
from tests.test_confirm_gpu import lines_of as reachable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.finding import Report

ROOT = FIXTURES.parent
MOST_ROUNDS = 6


@dataclass(slots=True)
class Mending:
    """A fixture, fixed round by round; what did not hold is kept as ``faults``."""

    file: Path
    text: str
    found: Counter[str] = field(default_factory=Counter)
    """Findings by rule; those with a fix, and with a safe one."""
    fixed: Counter[str] = field(default_factory=Counter)
    safe: Counter[str] = field(default_factory=Counter)
    left: tuple[Finding, ...] = ()
    faults: list[str] = field(default_factory=list)


def mend(file: Path, report: Report | None = None) -> Mending:
    """Applies the first fix of each finding, as far as they go together, until nothing has one.

    ``report`` is what is found in it as it is. Where it is given, of a fixed text only that is analyzed again
    that is another one now or leads to it, and ``left`` has only what is left there.
    """
    whole = report is None
    mending = Mending(file, file.read_text(encoding="utf-8"))
    report = report or _analyzed(file, None)
    first, shown = report, _shown(report)
    mending.found.update(each.code for each in shown)
    mending.fixed.update(each.code for each in shown if each.fixes)
    mending.safe.update(each.code for each in shown if any(fix.safe for fix in each.fixes))
    for _ in range(MOST_ROUNDS):
        fixes = compatible(each.fixes[0] for each in shown if each.fixes)
        if not fixes:
            break
        fixed = [each for each in shown if each.fixes and each.fixes[0] in fixes]
        todo = Counter(map(_what, fixed))
        before, mending.text = mending.text, applied(mending.text, fixes)
        after = _analyzed(file, mending.text if whole else touched(before, mending.text, fixed))
        shown = _shown(after)
        mending.faults += _faults(todo, (first, report), after, shown)
        report = after
    else:
        mending.faults.append(f"{file}: fixes without end")
    mending.left = shown
    return mending


def touched(before: str, after: str, fixed: Sequence[Finding]) -> str:
    """The text in which functions and classes are blank that are as they were, with all that they name.

    What is named by those that stay stays, and what stands outside of functions and classes; all lines keep
    their places. Where that is another one, all of it stays. So do callers that come by what was ``fixed``:
    of a line that two of them make wrong the first alone was shown; and those of a class, whose calls show in
    which order its methods are meant to be called.
    """
    old, new = _pieces(before), _pieces(after)
    top = new[""]
    if old.pop("") != new.pop(""):
        return after
    places = {span.line for each in fixed for span in (each.primary, *(note.span for note in each.related))}
    reach = {name: reached(after, name) for name in new}
    seeds = {name for name in new if new[name] != old.get(name)}
    seeds |= {name for name, (lines, _) in defined_in(before).items() if not places.isdisjoint(lines)}
    stay: set[str] = set()
    while seeds:
        # `table = Table()` at the top keeps its class.
        stay = {name for name in new if not seeds.isdisjoint(reach[name]) or re.search(rf"\b{name}\b", top)}
        stay = {other for name in stay for other in reach[name]}
        classes = {name for name in stay if re.search(rf"^class {name}\b", new[name], re.MULTILINE)}
        if classes <= seeds:
            break
        seeds |= classes
    away = {line for name in new.keys() - stay for line in defined_in(after)[name][0]}
    lines = enumerate(after.split("\n"), 1)
    return "\n".join("" if number in away else line for number, line in lines)


def _pieces(text: str) -> dict[str, str]:
    """The text of each function and class at the top, and under no name that of all else."""
    lines, defined = text.split("\n"), defined_in(text)
    inside = {line for numbers, _ in defined.values() for line in numbers}
    pieces = {name: "\n".join(lines[line - 1] for line in numbers) for name, (numbers, _) in defined.items()}
    return pieces | {"": "\n".join(line for number, line in enumerate(lines, 1) if number not in inside)}


def _analyzed(file: Path, text: str | None) -> Report:
    overlay = {} if text is None else {file: text.encode()}
    return engine.analyze(ROOT, [file], engine.Settings(evidence=False), None, overlay)


def _shown(report: Report) -> tuple[Finding, ...]:
    """With all rules on, as the fixtures expect it."""
    return leading(
        [
            each
            for each in report.findings
            if each.confidence is not Confidence.POSSIBLE or each.severity is Severity.ADVICE
        ]
    )


def _what(finding: Finding) -> tuple[str, str, str]:
    """A finding wherever it stands, and for however many accesses."""
    message = re.sub(r" \(and \d+ more \w+\)$", "", re.sub(r"line \d+", "line", finding.message))
    return finding.code, finding.function, message


def _faults(
    todo: Counter[tuple[str, str, str]],
    earlier: tuple[Report, Report],
    after: Report,
    shown: Sequence[Finding],
) -> list[str]:
    """``earlier`` is what was found at first, and in the round before: that may have left some of it out."""
    first, known, left = (Counter(map(_what, report.findings)) for report in (*earlier, after))
    faults = [f"{error.path}: {error.message}" for error in after.errors]
    faults += [f"still there: {each}" for each in todo if left[each] > known[each] - todo[each]]
    # What a wait for nothing explained comes to light behind it: the next round mends it.
    return faults + [
        f"new: {each.primary} {_what(each)}"
        for each in shown
        if left[_what(each)] > (known | first)[_what(each)]
        and each.severity is not Severity.ADVICE
        and not each.fixes
    ]


def as_right_ones(mending: Mending) -> str:
    """The text with the names by which its fixed functions run as right ones.

    What no fix has touched is wrong as before: a function all of whose findings are only possible.
    """
    lines = {span.line for each in mending.left for span in (each.primary, *(r.span for r in each.related))}
    text, before = mending.text, mending.file.read_text(encoding="utf-8")
    for name in functions(text):
        if name.endswith("_bad"):
            is_left = not lines.isdisjoint(reachable(mending.text, name))
            is_left = is_left or _code(mending.text, name) == _code(before, name)
            other = f"{name}_left" if is_left else f"{name.removesuffix('_bad')}_fixed_ok"
        elif name.endswith("_ok"):
            other = f"{name}_twin"
        else:
            continue
        text = re.sub(rf"\b{name}\b", other, text)
    return text


def _code(text: str, name: str) -> list[str]:
    """The lines of a function and of what it uses."""
    lines = text.splitlines()
    return [lines[number - 1] for number in sorted(reachable(text, name))]


def main(folder: Path | None) -> None:
    every = [mend(file) for file in fixture_files()]
    for mending in every:
        if folder is not None:
            place = folder / mending.file.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(as_right_ones(mending), encoding="utf-8")
        for fault in mending.faults:
            sys.stdout.write(f"{fault}\n")
        for each in mending.left:
            sys.stdout.write(f"left: {each.primary} {each.code} {each.message}\n")
    sys.stdout.write("\n".join(table(every)) + "\n")


def table(every: Sequence[Mending]) -> list[str]:
    """How many findings each rule has, how many of them a fix, and a safe one."""
    found, fixed, safe = Counter[str](), Counter[str](), Counter[str]()
    for each in every:
        found += each.found
        fixed += each.fixed
        safe += each.safe
    return [f"| {code} | {found[code]} | {fixed[code]} | {safe[code]} |" for code in sorted(found)]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None)
