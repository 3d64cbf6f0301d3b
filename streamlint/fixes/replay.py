"""The path of a finding once more: what the places around its operations can name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from streamlint.fixes.sight import Sight, seen_by, with_first
from streamlint.frozen import frozen
from streamlint.interp.entries.runs import outline, replayed

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Collection

    from streamlint import ir
    from streamlint.fixes.text import Source
    from streamlint.interp.entries.runs import Run
    from streamlint.interp.state.frames import Frame
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project
    from streamlint.source import Span
    from streamlint.trace import StreamKind, Trace

Key: TypeAlias = "tuple[str, int, int]"
"""Where a statement begins."""


MOST_LOOKS = 1_000_000
"""Statements that are run once more for the fixes of a file, and names that are looked up there."""


@dataclass(slots=True)
class Effort:
    """How much may still be looked at; a function of many statements has many names at each of them."""

    left: int = field(default_factory=lambda: MOST_LOOKS)


@frozen()
class Stage:
    """A frame when an operation was issued: the statement that did it, and those around."""

    source: Source
    statements: tuple[ast.stmt, ...]
    """The innermost first."""
    before: dict[Key, Sight]
    """What could be named when each of them began."""
    frame: int
    """Tells the activations of a path apart."""

    def key(self, statement: ast.stmt) -> Key:
        return self.source.path, *self.source.start(statement)


@dataclass(slots=True)
class Onlooker:
    """Keeps what can be named at the statements of ``wanted``, and the frames of the ops of ``numbers``."""

    sources: Callable[[str], Source | None]
    spans: Collection[Span]
    numbers: frozenset[int]
    effort: Effort
    wanted: set[Key] = field(default_factory=set)
    before: dict[tuple[int, Key], Sight] = field(default_factory=dict)
    latest: dict[Key, int] = field(default_factory=dict)
    """The frame in which a statement ran last."""
    after: dict[tuple[int, Key], list[Sight]] = field(default_factory=dict)
    stages: dict[int, tuple[Stage, ...]] = field(default_factory=dict)
    """By op number: the innermost frame first."""
    _scopes: dict[Key, ast.AST] = field(default_factory=dict)
    _frames: list[Frame] = field(default_factory=list)
    """Kept, so that no two of them have one address."""

    def __post_init__(self) -> None:
        for span in self.spans:
            source = self.sources(span.path)
            statement = source.at(span.line, span.col) if source is not None else None
            if source is None or statement is None:
                continue
            for around in source.around(statement):
                key = (span.path, *source.start(around))
                self.wanted.add(key)
                self._scopes[key] = source.scope(around)

    def begins(self, m: Machine, statement: ir.Stmt) -> None:
        key = (statement.span.path, statement.span.line, statement.span.col)
        self.effort.left -= 1
        if key in self.wanted and self.effort.left > 0:
            self._frames.append(m.frame)
            self.before[id(m.frame), key] = self._sight(m, key)
            self.latest[key] = id(m.frame)

    def ended(self, m: Machine, statement: ir.Stmt) -> None:
        key = (statement.span.path, statement.span.line, statement.span.col)
        if key in self.wanted and self.effort.left > 0:
            self.after.setdefault((id(m.frame), key), []).append(self._sight(m, key))

    def _sight(self, m: Machine, key: Key) -> Sight:
        source = self.sources(key[0])
        assert source is not None, "its statements were found"
        scope = self._scopes[key]
        module = m.project.module(m.frame.env.module)
        names_there = (each.name for each in module.imports) if module is not None else ()
        imported = {name for name in names_there if name.isidentifier()}  # not that of `import *`
        here, file = source.written(scope), source.written(source.tree)
        names = sorted(imported | source.names(scope))
        self.effort.left -= len(here) + len(names)
        return seen_by(m, here, names, (here.keys(), file.keys()))

    def issued(self, m: Machine, number: int) -> None:
        if number not in self.numbers or self.effort.left <= 0:  # then what was named last may be old
            return
        places = [*m.calls, m.ops[number].at.span]
        if len(places) != len(m.frames):
            return
        stages = [self._stage(m, frame, span) for frame, span in zip(m.frames, places, strict=True)]
        self.stages[number] = tuple(stage for stage in reversed(stages) if stage is not None)

    def _stage(self, m: Machine, frame: Frame, span: Span) -> Stage | None:
        source = self.sources(span.path)
        statement = source.at(span.line, span.col) if source is not None else None
        if source is None or statement is None:
            return None
        statements = tuple(source.around(statement))
        if not statements:
            return None
        keys = [(span.path, *source.start(each)) for each in statements]
        # What stands for the caller's use of a result comes when the frame that returned it is gone.
        number = id(frame) if (id(frame), keys[0]) in self.before else self.latest.get(keys[0], 0)
        before = {
            key: with_first(m, frame, self.before[number, key], each)
            for key, each in zip(keys, statements, strict=True)
            if (number, key) in self.before
        }
        return Stage(source, statements, before, number) if before else None


def replay(
    project: Project,
    run: Run,
    trace: Trace,
    numbers: frozenset[int],
    default_stream: StreamKind,
    sources: Callable[[str], Source | None],
    effort: Effort,
) -> Onlooker | None:
    """The path that gave a trace, looked on; None if it does not come out the same."""
    position = next((i for i, each in enumerate(run.traces) if each is trace), None)
    if position is None:
        return None
    spans = {span for number in numbers for span in (trace.ops[number].at.span, *trace.ops[number].at.calls)}
    onlooker = Onlooker(sources, spans, numbers, effort)
    again = replayed(project, run.entry, default_stream, run.decided[position], onlooker)
    # The first time, it may have begun with a copy of what a constructor left.
    return onlooker if outline(again.ops) == outline(trace.ops) else None
