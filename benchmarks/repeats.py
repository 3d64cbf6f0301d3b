"""How much of what is run lies in calls that get what an earlier call got.

Usage: python benchmarks/repeats.py TREE [PART OF A PATH]

A call is *like* an earlier one of the same function if it gets the same values, up to the numbers of
objects, streams, events and buffers, and decides open tests alike: its arguments, of objects the attributes
that it names or what it may call in its class and module, variables of modules, what unknown values were
found to be, answers so far, and the current streams. That leaves out who else holds memory, and budgets: it
is the most that keeping what calls did could save. Counted on each path, in each entry and in each file.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from streamlint import ir
from streamlint.interp.entries import starts
from streamlint.interp.python import functions, stmt
from streamlint.interp.state import symbols, values
from streamlint.run.results import Settings
from streamlint.run.session import Session, collected

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from streamlint.interp.entries.runs import Entry, Run
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import FuncV, Value
    from streamlint.trace import StreamKind

WITHIN = ("path", "entry", "file")


def names_reached(
    project: Project, function: ir.Function | ir.FunctionDecl, cls: ir.ClassDecl | None
) -> set[str]:
    """Names in the text of a function, and of those of its class and module that these may stand for."""
    module = project.module(function.module)
    known = dict(module.functions) if module is not None else {}
    for ancestor in reversed(project.ancestors(cls)[0] if cls is not None else []):
        known.update(ancestor.methods)
    found: set[str] = set()
    waiting = [function]
    while waiting:
        here = waiting.pop()
        if isinstance(here, ir.FunctionDecl):
            new = here.names - found
        else:
            new = {
                n.id if isinstance(n, ir.Name) else n.name
                for n in ir.walk(here.body)
                if isinstance(n, (ir.Name, ir.Attr))
            }
            new -= found
        found |= new
        waiting += [known[name] for name in new & known.keys()]
    return found


@dataclass(slots=True)
class Inputs:
    """What a call gets, with numbers in the order in which things are come by."""

    m: Machine
    names: set[str]
    answers: dict[Symbol, list[tuple[Symbol, int]]]
    numbers: dict[Hashable, int] = field(default_factory=dict)

    def number(self, kind: str, which: Hashable) -> tuple[int, bool]:
        is_new = (kind, which) not in self.numbers
        return self.numbers.setdefault((kind, which), len(self.numbers)), is_new

    def all(self, given: Iterable[Value]) -> tuple[Hashable, ...]:
        return tuple(self.of(value) for value in given)

    def of(self, value: Value) -> Hashable:
        m = self.m
        match value:
            case values.ConstV(plain):
                return type(plain), plain
            case values.SymV(symbol, holds, computes):
                return self.unknown(symbol), self.all(holds), computes
            case values.StreamV(number):
                place, is_new = self.number("stream", number)
                stream = m.streams[number]
                return place, is_new and (stream.kind, stream.device, stream.passed is None, stream.chosen)
            case values.EventV(number):
                place, is_new = self.number("event", number)
                event = m.events[number]
                return place, is_new and (event.device, event.earlier, event.timing)
            case values.BufferV(number, region, flavor):
                place, is_new = self.number("buffer", number)
                return place, region, flavor, is_new and self.buffer(value)
            case values.HeapV(number):
                place, is_new = self.number("object", number)
                return place, is_new and self.object(m.heap[number])
            case _:
                return self.of_parts(value)

    def of_parts(self, value: Value) -> Hashable:
        """The same for what has no number."""
        match value:
            case values.TupleV(items):
                return self.all(items)
            case values.FuncV(function, closure, receiver):
                return function.span, self.variables(closure), receiver and self.of(receiver)
            case values.PartialV(func, args, kwargs) | values.GeneratorV(func, args, kwargs):
                return self.of(func), self.all(args), tuple(kwargs), self.all(kwargs.values())
            case values.MethodV(receiver, name):
                return self.of(receiver), name
            case values.SliceV(lo, hi, step):
                return tuple(part and self.of(part) for part in (lo, hi, step))
            case values.ContextV(kind, inner):
                return kind, self.of(inner)
            case values.QueryV(of, status, negated):
                return self.of(of), status, negated
            case _:
                return type(value), self.symbol(values.symbol_of(value))

    def buffer(self, view: values.BufferV) -> Hashable:
        m, buffer = self.m, self.m.buffers[view.id]
        known = (buffer.space, buffer.origin, buffer.device, buffer.kind, buffer.residence)
        moved = m.life.moved.get(view.id)
        stream = buffer.alloc_stream
        made_on = self.of(values.StreamV(stream)) if stream is not None else None
        return known, made_on, view.id in m.flat, view.id in m.objects, moved and self.of(moved)

    def object(self, held: values.HeapObject) -> Hashable:
        attributes = tuple(
            (n, self.of(v)) for n, v in held.attrs.items() if held.cls is None or n in self.names
        )
        tables = tuple(
            (self.symbol(at), self.of(v)) for table in (held.entries, held.extra) for at, v in table.items()
        )
        kind = (held.shape, held.cls and held.cls.qualname, held.role, held.kind, held.open)
        return kind, attributes, self.all(held.items), tables, held.sample and self.of(held.sample)

    def variables(self, env: values.Env | None) -> Hashable:
        if env is None:
            return None
        own = tuple((name, self.of(value)) for name, value in env.names.items() if name in self.names)
        return own, self.variables(env.parent)

    def unknown(self, symbol: Symbol) -> Hashable:
        place, is_new = self.number("unknown", symbol)
        if not is_new:
            return place
        role = self.m.roles.get(symbol)
        asked = tuple((self.symbol(key), answer) for key, answer in self.answers.get(symbol, ()))
        return place, self.symbol(symbol), role and self.of(role), asked, symbol in self.m.plain

    def symbol(self, symbol: Symbol) -> Hashable:
        match symbol:
            case symbols.Thing(kind, which):
                return kind, self.number(kind, which)[0]
            case symbols.Memory(which, region):
                return self.number("buffer", which)[0], region
            case symbols.Fresh():
                return self.number("unknown", symbol)[0]
            case _ if any(True for _ in symbols.parts(symbol)):
                own = (getattr(symbol, name, None) for name in ("name", "op", "around"))
                return type(symbol), *own, *map(self.symbol, symbols.parts(symbol))
            case _:
                return symbol


def answers_by_part(m: Machine) -> dict[Symbol, list[tuple[Symbol, int]]]:
    """What the path has answered, by the unknown values that were asked about."""
    found: dict[Symbol, list[tuple[Symbol, int]]] = defaultdict(list)
    for key, answer in m.oracle.memo.items():
        waiting = [key]
        for one in waiting:
            found[one].append((key, answer))
            waiting += symbols.parts(one)
    return found


@dataclass(slots=True)
class Counts:
    statements: int = 0
    calls: int = 0
    seen: dict[str, set[Hashable]] = field(default_factory=lambda: {one: set() for one in WITHIN})
    again: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WITHIN, 0))
    """Statements in calls that are like an earlier one."""
    path: Machine | None = None

    def begin(self, *kinds: str) -> None:
        for kind in kinds:
            self.seen[kind].clear()


def counted(root: Path, part: str) -> Counts:
    """Runs the entries of the files that have ``part`` in their paths."""
    counts = Counts()
    run_statement, run_function, run_entry = stmt.run, functions.run_function, starts.run_entry
    reached: dict[Hashable, set[str]] = {}

    def statement(m: Machine, s: ir.Stmt) -> None:
        counts.statements += 1
        run_statement(m, s)

    def inputs(m: Machine, func: FuncV, args: list[Value], kwargs: dict[str, Value]) -> Hashable:
        own = func.receiver
        cls = m.heap[own.id].cls if isinstance(own, values.HeapV) else None
        place = (func.function.span, cls and (cls.module, cls.qualname))
        if place not in reached:
            reached[place] = names_reached(m.project, func.function, cls)
        found = Inputs(m, reached[place], answers_by_part(m))
        given = (found.of(func), found.all(args), tuple(kwargs), found.all(kwargs.values()))
        variables = tuple((at, found.of(v)) for at, v in m.globals.items() if at[1] in found.names)
        current = tuple(
            (lib, device, found.of(s)) for (lib, device, lane), s in m.current.items() if lane == m.lane
        )
        return hash(
            (given, variables, current, m.device, m.constructing, m.endless > 0, bool(m.captures.active))
        )

    def function(
        m: Machine, func: FuncV, body: ir.Function, args: list[Value], kwargs: dict[str, Value], *rest: object
    ) -> object:
        counts.calls += 1
        if counts.path is not m:
            counts.path = m
            counts.begin("path")
        given, asked = inputs(m, func, args, kwargs), len(m.oracle.taken)
        statements, again = counts.statements, dict(counts.again)
        result = run_function(m, func, body, args, kwargs, *rest)  # type: ignore[arg-type]
        whole = (given, tuple((decision.label, decision.chosen) for decision in m.oracle.taken[asked:]))
        for kind in WITHIN:
            if whole in counts.seen[kind]:
                counts.again[kind] = again[kind] + counts.statements - statements
            counts.seen[kind].add(whole)
        return result

    def entry(project: Project, one: Entry, default: StreamKind) -> Run:
        counts.begin("entry")
        return run_entry(project, one, default)

    files = tuple(sorted(root.rglob("*.py")))
    with (
        patch.object(stmt, "run", statement),
        patch.object(functions, "run_function", function),
        patch.object(starts, "run_entry", entry),
    ):
        session = Session(root, files, Settings(), {})
        for path in files:
            if part in path.as_posix():
                counts.begin("file")
                collected(session, path)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tree", type=Path)
    parser.add_argument("part", nargs="?", default="")
    options = parser.parse_args()
    counts = counted(options.tree.resolve(), options.part)
    print(f"{counts.statements} statements, {counts.calls} calls")
    for kind in WITHIN:
        share = 100 * counts.again[kind] / max(counts.statements, 1)
        print(f"    like an earlier call of the {kind}: {share:.0f} % of the statements")


if __name__ == "__main__":
    main()
