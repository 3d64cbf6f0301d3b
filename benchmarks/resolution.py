"""How many functions that use streams are analyzed, and with which streams and events known.

Usage: python benchmarks/resolution.py [--jobs N] [--unresolved N] TREE...

The denominator is counted by names alone, in ``stream_functions.py``. Of these functions

* *analyzed* were run on at least one path of some entry of their module;
* *resolved* were run, and in at least one entry, on all of its paths, every stream and event of what
  they issue themselves, and every stream that work inside their ``with`` statements is queued on, is
  known: it was created at a place of the source, or is the stream current at entry or a default stream.
  A function that waits, records or enters must have issued something. A stream that only the unseen
  caller knows (a parameter of a function that nothing in the module calls) is not resolved;
* *but for parameters* also counts functions of which nothing is unknown but streams and events that
  the entry's own caller passes as arguments: they are known up to the caller.

The entries of all modules outside of tests are run that ``check`` would run, with imports resolved in
the whole tree; a function is also seen when an entry of another module calls it.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from stream_functions import StreamFunction, is_test, modules_with_streams, python_files

from streamlint.interp.entries import starts
from streamlint.interp.state.budgets import Budgets
from streamlint.prefilter import may_touch_gpu
from streamlint.run.results import Settings
from streamlint.run.session import Session
from streamlint.trace import StreamKind, SyncDevice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.source import Span
    from streamlint.trace import Op, Trace


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one function; ``reason`` says why it is not resolved."""

    place: str
    qualname: str
    analyzed: bool
    resolved: bool
    given: bool
    """Resolved, or nothing is unknown but what the entry gets as an argument."""
    reason: str = ""


Key: TypeAlias = tuple[str, str]
"""A function: the path of its module and its qualified name."""


@dataclass(slots=True)
class Seen:
    """What entries showed: the unknown things of each function in each entry where it issued something."""

    executed: set[str] = field(default_factory=set)
    """``module:qualname`` of all that was run."""
    unknown: dict[Key, list[Counter[str]]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def add(self, other: Seen) -> None:
        self.executed |= other.executed
        self.errors += other.errors
        for key, counters in other.unknown.items():
            self.unknown.setdefault(key, []).extend(counters)


@dataclass(frozen=True, slots=True)
class Counted:
    """The denominator of a tree: the functions of each module, by its path below the root."""

    modules: dict[str, list[StreamFunction]]

    def issuer(self, span: Span) -> StreamFunction | None:
        """The innermost function whose text holds a place."""
        around = [f for f in self.modules.get(span.path, ()) if f.first_line <= span.line <= f.last_line]
        return max(around, key=lambda f: f.first_line, default=None)


def unknown_things(trace: Trace, op: Op, *, own: bool) -> Iterator[str]:
    """Streams and events of an op whose origin is not known; of a callee's op only the stream counts."""
    number = getattr(op, "stream", None)
    if number is not None and trace.streams[number].kind is StreamKind.UNKNOWN:
        yield f"stream {trace.streams[number].name}"
    event = getattr(op, "event", None)
    if own and event is not None and trace.events[event].span is None:
        yield f"event {trace.events[event].name}"


def _is_argument(thing: str) -> bool:
    """``stream 1:copy_stream``, the name of what the caller passed; ``1:ctx.stream`` is more than that."""
    name = thing.partition(" ")[2]
    number, colon, rest = name.partition(":")
    return colon == ":" and number.isdigit() and rest.isidentifier()


def inside_entered(function: StreamFunction, line: int) -> bool:
    return any(first <= line <= last for first, last in function.entered)


def look(trace: Trace, counted: Counted) -> dict[Key, Counter[str]]:
    """For each function that issued something in a trace: what is unknown of it."""
    found: dict[Key, Counter[str]] = {}
    for op in trace.ops[1:]:
        if isinstance(op, SyncDevice) and op.name == "before the first call":
            continue
        direct = counted.issuer(op.at.span)
        if direct is not None:
            key = (op.at.span.path, direct.qualname)
            found.setdefault(key, Counter()).update(unknown_things(trace, op, own=True))
        for call in op.at.calls:
            function = counted.issuer(call)
            if function is not None and function is not direct and inside_entered(function, call.line):
                key = (call.path, function.qualname)
                found.setdefault(key, Counter()).update(unknown_things(trace, op, own=False))
    return found


def run_module(root: Path, files: tuple[Path, ...], counted: Counted, path: Path) -> Seen:
    """Runs the entries of one module, if ``check`` would."""
    session = _session(root, files)
    session.project.budgets = Budgets()
    module = session.module(path)
    seen = Seen()
    if module is None or not starts.mentions_streams(session.project, module):
        return seen
    try:
        for run in starts.module_runs(session.project, module, StreamKind.LEGACY):
            seen.executed |= run.covered
            together: dict[Key, Counter[str]] = {}
            for trace in run.traces:
                for key, unknown in look(trace, counted).items():
                    together.setdefault(key, Counter()).update(unknown)
            for key, unknown in together.items():
                seen.unknown.setdefault(key, []).append(unknown)
    except Exception as problem:  # a benchmark counts failures, it does not stop at them
        seen.errors.append(f"{module.path}: {type(problem).__name__}: {problem}")
    return seen


def outcome(path: str, module: str, function: StreamFunction, seen: Seen) -> Outcome:
    place = f"{path}:{function.first_line}"
    unknown = seen.unknown.get((path, function.qualname), [])
    if not unknown and f"{module}:{function.qualname}" not in seen.executed:
        return Outcome(place, function.qualname, False, False, False, "never run")
    if not unknown:
        silent = not any(use.acts for use in function.uses)
        reason = "" if silent else "run, but nothing issued"
        return Outcome(place, function.qualname, True, silent, silent, reason)
    known = any(not things for things in unknown)
    given = any(all(_is_argument(thing) for thing in things) for things in unknown)
    totals: Counter[str] = sum(unknown, Counter())
    reason = "" if known else ", ".join(name for name, _ in totals.most_common(3))
    return Outcome(place, function.qualname, True, known, given, reason)


@dataclass(slots=True)
class _Cached:
    root: Path | None = None
    session: Session | None = None


_cache = _Cached()


def _session(root: Path, files: tuple[Path, ...]) -> Session:
    if _cache.root != root or _cache.session is None:
        _cache.root, _cache.session = root, Session(root, files, Settings(), {})
    return _cache.session


def tree_outcomes(root: Path, jobs: int) -> list[Outcome]:
    files = python_files(root)
    counted = Counted(
        {path.relative_to(root).as_posix(): found for path, found in modules_with_streams(root, files)}
    )
    tasks = [path for path in files if not is_test(path, root) and may_touch_gpu(path.read_bytes())]
    work = partial(run_module, root, tuple(files), counted)
    everything = Seen()
    if jobs == 1:
        for task in tasks:
            everything.add(work(task))
    else:
        with ProcessPoolExecutor(jobs) as pool:
            for seen in pool.map(work, tasks, chunksize=4):
                everything.add(seen)
    for error in everything.errors:
        print(f"  {error}", file=sys.stderr)
    session = _session(root, tuple(files))
    names = {session.tree.relative(path): name for path, name in session.names.items()}
    return [
        outcome(path, names.get(path, ""), function, everything)
        for path, functions in counted.modules.items()
        for function in functions
    ]


def line(name: str, outcomes: Iterable[Outcome]) -> str:
    rows = list(outcomes)
    total = len(rows)

    def share(count: int) -> str:
        return f"{count:5} {100 * count / max(total, 1):5.1f} %"

    return (
        f"{name:<32} {total:>5}  {share(sum(o.analyzed for o in rows))}"
        f"  {share(sum(o.resolved for o in rows))}  {share(sum(o.given for o in rows))}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", type=Path, nargs="+")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--unresolved", type=int, default=0, metavar="N", help="print N unresolved functions")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{'tree':<32} {'functions':>5} {'analyzed':>12} {'resolved':>14} {'but parameters':>14}")
    everything: list[Outcome] = []
    rest: list[str] = []
    for tree in options.trees:
        root = tree.resolve()
        outcomes = tree_outcomes(root, options.jobs)
        everything += outcomes
        rest += [f"{root.name}/{o.place} {o.qualname}: {o.reason}" for o in outcomes if not o.resolved]
        print(line(root.name, outcomes), flush=True)
    print(line("all", everything))
    for text in random.Random(options.seed).sample(rest, min(options.unresolved, len(rest))):  # noqa: S311
        print("  " + text)


if __name__ == "__main__":
    main()
