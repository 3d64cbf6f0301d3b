"""How many findings stay where programs are told differently.

Usage: python -m benchmarks.rewrites [--only NAME,...] [--count N] [--seed S] [--pairs N] [--each] [SET...]

Each rewrite changes all places of a program to which it applies, and keeps the meaning. Of a set, N wrong
programs are drawn of which the bug is found (``benchmarks/examined.py``), and half as many right ones that
are silent; of a Python file, every finding counts. A finding is *found* still if one stands at its lines, or
only *possible*, or *lost*; *new* ones stand where none stood. Lines are followed through the rewrite. What is
found in the program as it is, is what is found after it was printed anew.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.examined import SETS, programs
from streamlint.api import check_source
from streamlint.finding import Confidence

from . import calls, classes, statements, streams, variables
from .program import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Rewrite = Callable[[Program], int]

QUICK = 0.6
"""Seconds of CPU that a program may take which is looked at some fifty times."""

REWRITES: tuple[Rewrite, ...] = (
    streams.set_stream,
    streams.exit_stack,
    streams.context_helper,
    streams.split_with,
    streams.named_stream,
    streams.wait_by_record_event,
    streams.wait_by_event,
    streams.wait_stream,
    streams.null_context,
    streams.try_finally,
    statements.swapped_arms,
    statements.conditional_as_if,
    statements.if_as_conditional,
    statements.early_return,
    statements.no_else,
    statements.early_continue,
    statements.while_index,
    statements.enumerated,
    statements.by_generator,
    statements.by_index,
    statements.comprehension_as_loop,
    statements.loop_as_comprehension,
    statements.printing,
    statements.logging,
    statements.no_hints,
    statements.calling_through,
    statements.nested_function,
    statements.async_body,
    calls.keywords,
    calls.partial,
    calls.by_lambda,
    calls.by_getattr,
    calls.alias,
    calls.from_import,
    calls.import_as,
    calls.module_in_variable,
    calls.starred,
    classes.set_up,
    classes.base_class,
    classes.held_by_object,
    classes.held_by_dict,
    classes.held_by_own_class,
    variables.helper,
    variables.half_helper,
    variables.static_method,
    variables.inner_helper,
    variables.kept_in_object,
    variables.kept_in_dict,
    variables.results_in_tuple,
    variables.named_result,
    variables.named_arguments,
)


Places = frozenset[tuple[str, tuple[int, int]]]
"""Rule and lines of findings, as in the text that they were in before any rewrite."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is found in a text."""

    sure: Places
    possible: Places


@dataclass(frozen=True, slots=True)
class Subject:
    """A program, what is found in it as it is, and which of that is looked for after a rewrite."""

    path: Path
    before: Seen
    wanted: tuple[Places, ...]
    """Of each wanted bug the places of which one is enough."""


def told(text: str, rewrites: Sequence[Rewrite]) -> tuple[str, dict[int, tuple[int, int]]] | None:
    """The program after all rewrites, and where its lines came from; nothing if one does not apply."""
    program = Program.of(text)
    for rewrite in rewrites:
        if not rewrite(program):
            return None
    return program.printed()


def seen(text: str, was: dict[int, tuple[int, int]], path: Path) -> Seen:
    findings = check_source(text, path, min_confidence=Confidence.POSSIBLE).findings
    places = {kind: set[tuple[str, tuple[int, int]]]() for kind in (True, False)}
    for one in findings:
        line = one.primary.line
        places[one.confidence is not Confidence.POSSIBLE].add((one.code, was.get(line, (-line, -line))))
    return Seen(frozenset(places[True]), frozenset(places[False]))


def as_it_is(path: Path) -> Seen:
    """What is found in a program that is only printed anew."""
    printed = told(path.read_text("utf-8"), ())
    assert printed is not None
    return seen(*printed, path)


def examined_subjects(sets: Sequence[Path], count: int, seed: int) -> Iterator[Subject]:
    """Wrong programs of which the bug is found, and half as many right ones that are silent."""
    every = [one for folder in sets for one in programs(folder)]
    random.Random(seed).shuffle(every)  # noqa: S311 - a sample, no secret
    left = {True: count, False: count // 2}
    for one in every:
        if not left[one.is_wrong]:
            continue
        started = time.process_time()
        before = as_it_is(one.path)
        if time.process_time() - started > QUICK:
            continue
        at_bug = frozenset(
            (code, lines) for code, lines in before.sure if any(map(one.has, range(lines[0], lines[1] + 1)))
        )
        if at_bug if one.is_wrong else not before.sure:
            left[one.is_wrong] -= 1
            yield Subject(one.path, before, (at_bug,) if one.is_wrong else ())


def file_subjects(paths: Sequence[Path]) -> Iterator[Subject]:
    """Files of which every finding is to stay."""
    for path in paths:
        before = as_it_is(path)
        yield Subject(path, before, tuple(frozenset({one}) for one in sorted(before.sure)))


def compared(subject: Subject, after: Seen) -> Iterator[tuple[str, str]]:
    """What became of each wanted finding, and of findings that nobody had before: the word, and where."""
    for places in subject.wanted:
        ranges = [(first, last) for _, (first, last) in places]
        word = "found" if _at(after.sure, ranges) else "possible" if _at(after.possible, ranges) else "lost"
        yield word, " ".join(f"{code}:{first}" for code, (first, _) in sorted(places))
    for code, (first, last) in sorted(after.sure):
        if not _at(subject.before.sure, [(first, last)]):
            yield "new", f"{code}:{first}"


def _at(found: Places, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(a <= last and first <= b for _, (first, last) in found for a, b in ranges)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", type=Path, help="folders with an index.jsonl")
    parser.add_argument("--only", default="", help="names of rewrites, with commas")
    parser.add_argument("--count", type=int, default=40, help="wrong programs, and half as many right ones")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--pairs", type=int, default=0, help="random pairs of rewrites instead of each by itself"
    )
    parser.add_argument("--each", action="store_true", help="tell which programs do not keep theirs")
    args = parser.parse_args()
    names = {name for name in args.only.split(",") if name}
    chosen = [one for one in REWRITES if not names or one.__name__ in names]
    ways: list[tuple[Rewrite, ...]] = [(one,) for one in chosen]
    if args.pairs:
        dice = random.Random(args.seed)  # noqa: S311 - a sample, no secret
        ways = [tuple(dice.sample(chosen, 2)) for _ in range(args.pairs)]
    files = [path for path in args.sets if path.suffix == ".py"]
    folders = [path for path in args.sets if path.suffix != ".py"]
    subjects = list(file_subjects(files))
    if folders or not files:
        subjects += examined_subjects(
            folders or sorted(p.parent for p in SETS.glob("*/index.jsonl")), args.count, args.seed
        )
    print(f"{len(subjects)} programs, {sum(len(one.wanted) for one in subjects)} findings\n", flush=True)
    print("| rewrite | programs | findings | found | possible | lost | new | s |")
    print("|" + " --- |" * 8)
    for way in ways:
        started = time.process_time()
        count: Counter[str] = Counter()
        notes = []
        for one in subjects:
            if (printed := told(one.path.read_text("utf-8"), way)) is None:
                continue
            count["programs"] += 1
            for word, where in compared(one, seen(*printed, one.path)):
                count[word] += 1
                if word != "found":
                    notes.append(f"    {one.path.parent.name}/{one.path.name} {where} {word}")
        findings = count["found"] + count["possible"] + count["lost"]
        row = (
            " + ".join(one.__name__ for one in way), count["programs"], findings, count["found"],
            count["possible"], count["lost"], count["new"], round(time.process_time() - started),
        )  # fmt: skip
        print("|", " | ".join(map(str, row)), "|", flush=True)
        if args.each and notes:
            print("\n".join(notes), flush=True)


if __name__ == "__main__":
    main()
