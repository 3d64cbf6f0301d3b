"""How often the same statement is run, and how much of that is in entries with nothing to order.

Usage: python benchmarks/executions.py TREE...

The entries of each tree are run as ``check`` runs them, in this process, and counted:

* *statements*: how many were run, how many different ones these were, and how often one was run on average;
* *calls* of functions of the tree, and how many functions these were;
* *idle* entries: on none of their paths is there anything that could be unordered.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from streamlint.interp.entries import starts
from streamlint.interp.entries.runs import is_busy
from streamlint.interp.python import functions, stmt
from streamlint.run.results import Settings
from streamlint.run.session import Session, collected

if TYPE_CHECKING:
    from collections.abc import Sized

    from streamlint import ir
    from streamlint.interp.entries.runs import Entry, Run
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project
    from streamlint.interp.state.values import FuncV
    from streamlint.source import Span
    from streamlint.trace import StreamKind


@dataclass(slots=True)
class Counts:
    """What the entries of a tree ran."""

    statements: Counter[Span] = field(default_factory=Counter)
    calls: Counter[Span] = field(default_factory=Counter)
    entries: int = 0
    idle: int = 0
    idle_statements: int = 0

    @property
    def all(self) -> int:
        return sum(self.statements.values())


def counted(root: Path) -> Counts:
    """Runs the entries of all files that ``check`` would analyze."""
    counts = Counts()
    run_statement, run_function, run_entry = stmt.run, functions.run_function, starts.run_entry

    def statement(m: Machine, s: ir.Stmt) -> None:
        counts.statements[s.span] += 1
        run_statement(m, s)

    def function(m: Machine, func: FuncV, body: ir.Function, *rest: object) -> object:
        counts.calls[body.span] += 1
        return run_function(m, func, body, *rest)  # type: ignore[arg-type]

    def entry(project: Project, one: Entry, default: StreamKind) -> Run:
        before = counts.all
        run = run_entry(project, one, default)
        counts.entries += 1
        if not any(is_busy(trace.ops) for trace in run.traces):
            counts.idle += 1
            counts.idle_statements += counts.all - before
        return run

    files = tuple(sorted(root.rglob("*.py")))
    with (
        patch.object(stmt, "run", statement),
        patch.object(functions, "run_function", function),
        patch.object(starts, "run_entry", entry),
    ):
        session = Session(root, files, Settings(), {})
        for path in files:
            collected(session, path)
    return counts


def show(root: Path) -> None:
    counts = counted(root)
    statements, idle = counts.all, counts.idle_statements
    calls = sum(counts.calls.values())
    print(root.name)
    lines = (
        f"{statements} statements run, of {len(counts.statements)}: {_times(statements, counts.statements)}",
        f"{calls} calls, of {len(counts.calls)} functions: {_times(calls, counts.calls)}",
        f"{counts.entries} entries, {counts.idle} idle, with {idle} of the statements",
    )
    print("\n".join(f"    {line}" for line in lines), flush=True)


def _times(total: int, of: Sized) -> str:
    return f"{total / max(len(of), 1):.1f} times each"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", type=Path, nargs="+")
    options = parser.parse_args()
    for tree in options.trees:
        show(tree.resolve())


if __name__ == "__main__":
    main()
