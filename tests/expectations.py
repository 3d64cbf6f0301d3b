"""Expectations written as comments in the fixtures, matched both ways with what the analyzer finds.

A fixture is real Python. A comment at the end of a line, or alone in the lines right above it, says
what must be reported there::

    total = y.sum()  # error: [SL101] "may still be writing"

* ``# error: [SL101]`` is a finding of at least ``likely`` confidence, ``# possible: [SL101]`` one of
  exactly ``possible``. Findings of ``possible`` that no comment asks for are ignored.
* A number before the bracket is the 1-based column, a string after it is contained in the message.
* Several expectations may stand on one line, each with its own ``#``; each is one finding.
* ``# todo-error:`` is a known miss and ``# todo-ok:`` a known false alarm. Both fail as soon as the
  analyzer gets better, so that a gap is counted as long as it is there and not longer.

``python -m tests.expectations --count`` prints how much of this there is for each rule.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import assert_never

from streamlint.finding import Confidence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from streamlint.finding import Finding

FIXTURES = Path(__file__).parent.parent / "fixtures"


class Kind(Enum):
    """What a comment claims about the analyzer."""

    ERROR = "error"
    POSSIBLE = "possible"
    TODO_ERROR = "todo-error"
    TODO_OK = "todo-ok"

    @property
    def wants_possible(self) -> bool:
        return self is Kind.POSSIBLE


@dataclass(frozen=True, slots=True)
class Expectation:
    """One claim about ``line`` (counted from 1); ``column`` counts from 1 too."""

    kind: Kind
    code: str
    line: int
    column: int | None = None
    text: str | None = None

    def __str__(self) -> str:
        column = f"{self.column} " if self.column is not None else ""
        text = f' "{self.text}"' if self.text is not None else ""
        return f"{column}[{self.code}]{text}"

    def accepts(self, finding: Finding) -> bool:
        """Whether ``finding`` is what this comment asks for."""
        possible = finding.confidence is Confidence.POSSIBLE
        return (
            finding.code == self.code
            and finding.primary.line == self.line
            and (self.column is None or finding.primary.col + 1 == self.column)
            and (self.text is None or self.text in finding.message)
            and possible == self.kind.wants_possible
        )


class ExpectationError(ValueError):
    """A comment that looks like an expectation and is none: a typing error must not pass in silence."""


_LOOKS_LIKE = re.compile(r"#\s*(?:error|possible|todo-error|todo-ok)\s*:")
_ONE = re.compile(
    r"""\#\s*(?P<kind>error|possible|todo-error|todo-ok):\s*
        (?:(?P<column>[1-9]\d*)\s+)?
        \[(?P<code>SL\d{3})\]
        (?:\s+"(?P<text>[^"]*)")?\s*""",
    re.VERBOSE,
)


@cache
def parse(source: str) -> tuple[Expectation, ...]:
    """All expectations of a fixture, in order.

    Raises ``ExpectationError`` for a comment that starts like an expectation and does not follow
    the grammar, and for one that stands alone with no code right below.
    """
    found: list[Expectation] = []
    pending: list[Expectation] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        match token.type:
            case tokenize.COMMENT:
                line = token.start[0]
                here = _parse_comment(token.string, line)
                if token.line[: token.start[1]].strip():
                    found += here
                else:
                    pending += here
            case tokenize.NL | tokenize.INDENT | tokenize.DEDENT:
                pass
            case _:
                if pending:
                    found += (_moved(one, token.start[0]) for one in pending)
                    _require_adjacent(pending[-1], token)
                    pending = []
    return tuple(sorted(found, key=lambda one: one.line))


def _parse_comment(comment: str, line: int) -> list[Expectation]:
    if not _LOOKS_LIKE.match(comment):
        return []
    here: list[Expectation] = []
    rest = comment
    while rest.startswith("#"):
        match = _ONE.match(rest)
        if match is None:
            break
        column = match["column"]
        here.append(
            Expectation(
                Kind(match["kind"]), match["code"], line, int(column) if column else None, match["text"]
            )
        )
        rest = rest[match.end() :]
    # What follows may be a plain remark, but only as a comment of its own: `# error: [SL101]  # as above`.
    if not here or (rest and not rest.startswith("#")) or _LOOKS_LIKE.search(rest):
        raise ExpectationError(f"line {line}: not an expectation: {comment}")
    return here


def _moved(one: Expectation, line: int) -> Expectation:
    return Expectation(one.kind, one.code, line, one.column, one.text)


def _require_adjacent(last: Expectation, token: tokenize.TokenInfo) -> None:
    if token.type == tokenize.ENDMARKER or token.start[0] != last.line + 1:
        raise ExpectationError(f"line {last.line}: no code right below: {last}")


# ----------------------------------------------------------------------------- matching


@dataclass(frozen=True, slots=True)
class Missing:
    """Expected, and not reported."""

    expectation: Expectation


@dataclass(frozen=True, slots=True)
class Unexpected:
    """Reported, and not expected."""

    finding: Finding


@dataclass(frozen=True, slots=True)
class MissIsFound:
    """A known miss is reported now."""

    expectation: Expectation


@dataclass(frozen=True, slots=True)
class AlarmIsGone:
    """A known false alarm is not reported any more."""

    expectation: Expectation


Mismatch: TypeAlias = Missing | Unexpected | MissIsFound | AlarmIsGone


def compare(expectations: Sequence[Expectation], findings: Sequence[Finding]) -> tuple[Mismatch, ...]:
    """What differs, in line order; empty if every finding has its expectation and the other way round."""
    paired = _pair(expectations, findings)
    mismatches: list[Mismatch] = []
    for index, expectation in enumerate(expectations):
        there = index in paired
        match expectation.kind:
            case Kind.ERROR | Kind.POSSIBLE:
                if not there:
                    mismatches.append(Missing(expectation))
            case Kind.TODO_ERROR:
                if there:
                    mismatches.append(MissIsFound(expectation))
            case Kind.TODO_OK:
                if not there:
                    mismatches.append(AlarmIsGone(expectation))
            case _:
                assert_never(expectation.kind)
    taken = set(paired.values())
    mismatches += (
        Unexpected(finding)
        for index, finding in enumerate(findings)
        if index not in taken and finding.confidence is not Confidence.POSSIBLE
    )
    return tuple(sorted(mismatches, key=_line_of))


def _pair(expectations: Sequence[Expectation], findings: Sequence[Finding]) -> dict[int, int]:
    """Expectation index to finding index, as many as possible: augmenting paths, known misses last.

    First come, first served would not do: of ``[SL101] "x"`` and ``[SL101]`` on one line, the second
    must not take the only finding that satisfies the first.
    """
    accepted = [
        [index for index, finding in enumerate(findings) if one.accepts(finding)] for one in expectations
    ]
    holder: dict[int, int] = {}

    def place(expectation: int, tried: set[int]) -> bool:
        for finding in accepted[expectation]:
            if finding in tried:
                continue
            tried.add(finding)
            if finding not in holder or place(holder[finding], tried):
                holder[finding] = expectation
                return True
        return False

    order = sorted(range(len(expectations)), key=lambda i: expectations[i].kind is Kind.TODO_ERROR)
    for expectation in order:
        place(expectation, set())
    return {expectation: finding for finding, expectation in holder.items()}


def _line_of(mismatch: Mismatch) -> int:
    match mismatch:
        case Unexpected(finding):
            return finding.primary.line
        case Missing(expectation) | MissIsFound(expectation) | AlarmIsGone(expectation):
            return expectation.line
        case _:
            assert_never(mismatch)


# ----------------------------------------------------------------------------- reports


def explain(path: str, source: str, mismatches: Sequence[Mismatch], findings: Sequence[Finding]) -> str:
    """A readable account of ``mismatches``: each with its source line and what was found near it."""
    lines = source.splitlines()
    text = [f"{path}: {len(mismatches)} mismatch(es)"]
    for mismatch in mismatches:
        line = _line_of(mismatch)
        text.append(f"  line {line}: {_describe(mismatch)}")
        text.append(f"      | {lines[line - 1].strip() if 0 < line <= len(lines) else '(no such line)'}")
        if isinstance(mismatch, Missing):
            text += (f"      found here: {_show(one)}" for one in findings if one.primary.line == line)
    return "\n".join(text)


def _describe(mismatch: Mismatch) -> str:
    match mismatch:
        case Missing(expectation):
            return f"expected {expectation.kind.value} {expectation}, not found"
        case Unexpected(finding):
            related = "".join(f" <- line {one.span.line}: {one.message}" for one in finding.related)
            return f"unexpected {_show(finding)}{related}"
        case MissIsFound(expectation):
            return f"the known miss {expectation} is found now: write `error` instead of `todo-error`"
        case AlarmIsGone(expectation):
            return f"the known false alarm {expectation} is gone: remove its `todo-ok`"
        case _:
            assert_never(mismatch)


def _show(finding: Finding) -> str:
    return f"{finding.primary.col + 1} [{finding.code}] ({finding.confidence.value}) {finding.message}"


def fixture_files(root: Path = FIXTURES) -> tuple[Path, ...]:
    """All fixture files, sorted."""
    return tuple(sorted(root.rglob("*.py")))


def rule_of(path: Path) -> str:
    """``.../torch/sl101_events.py`` is about SL101."""
    return path.stem.split("_")[0].upper()


def needs_two_gpus(path: Path) -> bool:
    """The docstring of such a fixture file ends with these words."""
    return (ast.get_docstring(ast.parse(path.read_bytes())) or "").endswith("Needs two GPUs to run.")


def needs_a_group(path: Path) -> bool:
    """Whether the functions of a fixture file communicate, in a process group that they do not make."""
    text = path.read_text("utf-8")
    return rule_of(path) == "SL602" or "dist.group.WORLD" in text or "dist.get_world_size()" in text


_COLUMNS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("bad", lambda name: name.endswith("_bad")),
    ("ok", lambda name: name.endswith("_ok")),
)


def count(files: Iterable[Path]) -> dict[str, Counter[str]]:
    """For each rule: ``bad`` and ``ok`` functions of its files, and expectations of each kind."""
    table: dict[str, Counter[str]] = {}
    for file in files:
        source = file.read_text(encoding="utf-8")
        row = table.setdefault(rule_of(file), Counter(files=0))
        row["files"] += 1
        for name in functions(source):
            row.update(column for column, holds in _COLUMNS if holds(name))
        for expectation in parse(source):
            table.setdefault(expectation.code, Counter())[expectation.kind.value] += 1
    return dict(sorted(table.items()))


@cache
def functions(source: str) -> dict[str, ast.FunctionDef]:
    """The functions at the top of a module, by name."""
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table that ``--count`` asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.expectations")
    parser.add_argument(
        "--count", action="store_true", required=True, help="count functions and expectations"
    )
    parser.add_argument("paths", nargs="*", type=Path, help="fixture files (default: all)")
    arguments = parser.parse_args(argv)
    table = count(arguments.paths or fixture_files())
    columns = ["files", "bad", "ok", *(kind.value for kind in Kind)]
    total: Counter[str] = Counter()
    for row in table.values():
        total.update(row)
    print("rule   ", *(f"{column:>10}" for column in columns))
    for name, row in [*table.items(), ("total", total)]:
        print(f"{name:<7}", *(f"{row[column]:>10}" for column in columns))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
