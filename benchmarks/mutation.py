"""Deletes one ordering statement at a time and counts how often streamlint notices.

Usage: python benchmarks/mutation.py [--count N] [--seed S] [--jobs J] [--missed M] TREE...
       python benchmarks/mutation.py --fixtures

A statement that only orders (``side.wait_stream(cur)``, ``event.wait()``, ``event.record()``,
``torch.cuda.synchronize()``, ``x.record_stream(s)``, ``cudaStreamWaitEvent(...)``) is replaced by ``pass``
in memory. The deletion is *found* if the module then has a finding of at least ``likely`` confidence
that it did not have before; *possible* counts those that only show with ``--min-confidence possible``.

With trees, N functions outside of tests and benchmarks are drawn, and one statement in each: many of
those are redundant, or matter only to callers elsewhere, so the share is a lower bound, to be compared
between versions. With ``--fixtures`` every statement of the correct twins is tried; those that are not found
must be the ones in ``fixture_deletions.txt``, each with a reason; the exit status says whether they are.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ordering_statements import Deletion, cut_out, deletions
from stream_functions import is_test, python_files

from streamlint.finding import Confidence, leading
from streamlint.interp.entries import starts
from streamlint.interp.state.budgets import Budgets, FileCut
from streamlint.rules import RULES
from streamlint.run import engine
from streamlint.run.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint import ir
    from streamlint.finding import Finding

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
DEFAULT_RULES = frozenset(rule.code for rule in RULES if rule.default)


@dataclass(frozen=True, slots=True)
class Result:
    deletion: Deletion
    reached: bool
    """Whether any entry runs the function."""
    found: bool
    possible: bool
    message: str = ""


# ----------------------------------------------------------------------------- running


@dataclass(frozen=True, slots=True)
class Shown:
    """What a run would show for one module and those that call it, by fingerprint."""

    likely: dict[str, Finding]
    possible: dict[str, Finding]


@dataclass(slots=True)
class Subject:
    """A module with the modules that call it, analyzed again for each deletion.

    Only modules of which some entry runs the changed function are.
    """

    root: Path
    files: tuple[Path, ...]
    paths: tuple[Path, ...]
    modules: dict[str, ir.Module | None] = field(default_factory=dict)
    covered: dict[Path, set[str]] = field(default_factory=dict)
    """The functions that the entries of a file run."""
    before: dict[frozenset[Path], Shown] = field(default_factory=dict)

    def session(self, overlay: dict[Path, bytes]) -> Session:
        session = Session(self.root, self.files, engine.Settings(), overlay)
        changed = {session.names[path] for path in overlay}
        session.project.modules.update((n, m) for n, m in self.modules.items() if n not in changed)
        return session

    def explore(self) -> None:
        """Finds out which entries run which functions."""
        session = self.session({})
        for path in self.paths:
            module = session.project.module(session.names[path])
            if module is None:
                continue
            session.project.budgets = Budgets()
            with suppress(FileCut):  # what has run by then is what a run over the file judges, too
                for run in starts.module_runs(session.project, module, session.settings.default_kind):
                    self.covered.setdefault(path, set()).update(run.covered)
        self.modules = dict(session.project.modules)

    def shown(self, overlay: dict[Path, bytes], wanted: frozenset[Path]) -> Shown:
        session = self.session(overlay)
        found: list[Finding] = []
        for path in wanted:
            result = session.file(path)
            found += [finding for finding in result.findings if finding.code in DEFAULT_RULES]
        sure = [finding for finding in found if finding.confidence is not Confidence.POSSIBLE]
        return Shown(
            {finding.fingerprint: finding for finding in leading(sure)},
            {finding.fingerprint: finding for finding in leading(found)},
        )

    def without(self, deletion: Deletion) -> Result:
        if not self.covered:
            self.explore()
        changed = f"{self.session({}).names[deletion.path]}:{deletion.function}"
        wanted = frozenset(
            path
            for path, functions in self.covered.items()
            if any(changed == name or changed.startswith(f"{name}.<locals>") for name in functions)
        )
        if wanted not in self.before:
            self.before[wanted] = self.shown({}, wanted)
        before = self.before[wanted]
        after = self.shown({deletion.path: cut_out(deletion.path.read_bytes(), deletion)}, wanted)
        new = [finding for mark, finding in after.likely.items() if mark not in before.likely]
        doubtful = [finding for mark, finding in after.possible.items() if mark not in before.possible]
        text = "".join(f"{f.code} line {f.primary.line}: {f.message}" for f in (new or doubtful)[:1])
        return Result(deletion, bool(wanted), bool(new), bool(new or doubtful), text)


def try_module(task: tuple[Subject, list[Deletion]]) -> list[Result]:
    subject, wanted = task
    return [subject.without(deletion) for deletion in wanted]


def run(
    root: Path, files: list[Path], chosen: Sequence[Deletion], jobs: int, callers: int
) -> Iterator[Result]:
    """The results, a module's as soon as all of them are known."""
    by_module: dict[Path, list[Deletion]] = {}
    for deletion in chosen:
        by_module.setdefault(deletion.path, []).append(deletion)
    tasks = [
        (Subject(root, tuple(files), (path, *calling(files, path, wanted, callers))), wanted)
        for path, wanted in by_module.items()
    ]
    if jobs == 1:
        for task in tasks:
            yield from try_module(task)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for results in pool.map(try_module, tasks):
            yield from results


def calling(files: Sequence[Path], path: Path, wanted: Sequence[Deletion], most: int) -> list[Path]:
    """Up to ``most`` other modules whose text names the module and one of the functions or their class."""
    if not most:
        return []
    stem = path.parent.name if path.name == "__init__.py" else path.stem
    marks = {deletion.function.split(".")[0].encode() for deletion in wanted}
    found = []
    for other in files:
        text = other.read_bytes() if other != path else b""
        if stem.encode() in text and b"import" in text and any(mark in text for mark in marks):
            found.append(other)
    return sorted(found, key=lambda other: (other.parent != path.parent, str(other)))[:most]


# ----------------------------------------------------------------------------- what to delete


def candidates(root: Path, files: list[Path]) -> tuple[dict[tuple[Path, str], list[Deletion]], Counter[str]]:
    """The statements of a tree that can matter, by function, and how many cannot, by reason."""
    by_function: dict[tuple[Path, str], list[Deletion]] = {}
    left_out: Counter[str] = Counter()
    for path in files:
        if is_test(path, root):
            continue
        source = path.read_bytes()
        if b"cuda" not in source and b"accelerator" not in source and b"cupy" not in source:
            continue
        for deletion in deletions(path, source):
            if deletion.cannot_matter:
                left_out[deletion.cannot_matter] += 1
            else:
                by_function.setdefault((path, deletion.function), []).append(deletion)
    return by_function, left_out


def shares(sizes: Sequence[int], count: int) -> list[int]:
    """``count`` dealt evenly; what a small tree cannot use goes to the others."""
    dealt = [0] * len(sizes)
    for place, tree in enumerate(sorted(range(len(sizes)), key=lambda i: sizes[i])):
        left = len(sizes) - place
        dealt[tree] = min(sizes[tree], round((count - sum(dealt)) / left))
    return dealt


def draw(by_function: dict[tuple[Path, str], list[Deletion]], count: int, seed: int) -> list[Deletion]:
    """One statement in each of ``count`` functions."""
    dice = random.Random(seed)  # noqa: S311  a sample, no secret
    names = sorted(by_function, key=str)
    dice.shuffle(names)
    return [dice.choice(by_function[name]) for name in names[:count]]


def of_correct_twins(path: Path) -> list[Deletion]:
    """The statements of functions named ``..._ok``, and of what only they use, without the scaffolding.

    Scaffolding is a synchronization of the whole device that comes right before a ``return`` or in a
    constructor, or that the ``_bad`` twin has as often: the fixture is built so that only the
    operations in sight are pending, and the twins differ in something else.
    """
    source = path.read_bytes()
    tree = ast.parse(source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    used: dict[str, set[str]] = {"ok": set(), "bad": set()}
    for name, node in functions.items():
        names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        used.get(name.rpartition("_")[2], set()).update(names | {name})
    wanted = used["ok"] - used["bad"]
    before_return = {
        (first.lineno, first.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.With))
        for first, second in pairwise(node.body)
        if isinstance(second, ast.Return)
    }
    found = [d for d in deletions(path, source) if d.function.partition(".")[0] in wanted]

    def is_scaffolding(deletion: Deletion) -> bool:
        if not _WHOLE_DEVICE.search(deletion.text):
            return False
        twin = functions.get(deletion.function.removesuffix("ok") + "bad")
        alike = [d.text for d in found if d.function == deletion.function].count(deletion.text)
        return (
            (deletion.line, deletion.column) in before_return
            or deletion.function.endswith("__init__")
            or (twin is not None and ast.unparse(twin).count(deletion.text) >= alike)
        )

    return [deletion for deletion in found if not is_scaffolding(deletion)]


_WHOLE_DEVICE = re.compile(
    r"(torch\.(cuda|accelerator)|cuda|Device\(\))\.synchronize\(\)|cudaDeviceSynchronize|cuCtxSynchronize"
)


# ----------------------------------------------------------------------------- reports


def summary(name: str, results: Sequence[Result], seconds: float) -> str:
    total = max(len(results), 1)
    found = sum(result.found for result in results)
    possible = sum(result.possible for result in results)
    return (
        f"{name:<32} {len(results):>4} deletions  {found:>4} found {100 * found / total:5.1f} %"
        f"  {possible:>4} at least possible {100 * possible / total:5.1f} %  {seconds:6.1f} s"
    )


def place(result: Result, root: Path) -> str:
    deletion = result.deletion
    missed = "missed" if result.reached else "not run"
    mark = "found" if result.found else ("possible" if result.possible else missed)
    where = deletion.path.relative_to(root).as_posix()
    return (
        f"  {mark:<8} {where}:{deletion.line} {deletion.function}: {deletion.text}  {result.message}".rstrip()
    )


NOT_FOUND = Path(__file__).with_name("fixture_deletions.txt")


def key(deletion: Deletion) -> str:
    return f"{deletion.path.relative_to(FIXTURES).as_posix()} | {deletion.function} | {deletion.text}"


def known_misses() -> Counter[str]:
    """Deletions that need not, or cannot yet, be found, with how often they stand in a function."""
    lines = NOT_FOUND.read_text(encoding="utf-8").splitlines()
    return Counter(line.split(" | ", 1)[1] for line in lines if line and not line.startswith("#"))


def try_fixtures(jobs: int) -> bool:
    """Whether exactly the known deletions are missed; others, and those found by now, are printed."""
    # The root is above fixtures: with that as root, its folder torch would be `import torch`.
    root = FIXTURES.parent
    start = time.perf_counter()
    files = python_files(FIXTURES)
    chosen = [deletion for path in files for deletion in of_correct_twins(path)]
    results = list(run(root, files, chosen, jobs, 0))
    missed = Counter(key(result.deletion) for result in results if not result.found)
    known = known_misses()
    for text in (missed - known).elements():
        print(f"  not found: {text}")
    for text in (known - missed).elements():
        print(f"  found by now, or gone: {text}")
    print(summary("fixtures", results, time.perf_counter() - start))
    return missed == known


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", type=Path, nargs="*")
    parser.add_argument("--fixtures", action="store_true", help="try all statements of the correct fixtures")
    parser.add_argument(
        "--count", type=int, default=200, help="functions to draw, shared evenly by the trees"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--callers", type=int, default=2, help="calling modules to analyze with each")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="print what became of each deletion")
    options = parser.parse_args()
    if options.fixtures and not try_fixtures(options.jobs):
        sys.exit(1)
    if not options.trees:
        return
    trees = [tree.resolve() for tree in options.trees]
    files = {root: python_files(root) for root in trees}
    found = {root: candidates(root, files[root]) for root in trees}
    everything: list[Result] = []
    begin = time.perf_counter()
    for root, share in zip(trees, shares([len(found[r][0]) for r in trees], options.count), strict=True):
        start = time.perf_counter()
        by_function, left_out = found[root]
        chosen = draw(by_function, share, options.seed)
        results = list(run(root, files[root], chosen, options.jobs, options.callers))
        everything += results
        print(summary(root.name, results, time.perf_counter() - start))
        reasons = ", ".join(f"{number} {why}" for why, number in sorted(left_out.items()))
        print(f"  of {len(by_function)} functions; left out: {reasons or 'nothing'}", flush=True)
        if options.verbose:
            for result in results:
                print(place(result, root), flush=True)
    print(summary("all", everything, time.perf_counter() - begin))


if __name__ == "__main__":
    main()
