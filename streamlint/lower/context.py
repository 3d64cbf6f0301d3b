"""What the lowering of one segment carries along."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from streamlint import ir
from streamlint.lower.text import Segment, SourceText

IndexClass = Callable[[Segment, ast.ClassDef, str], ir.ClassDecl]
"""Indexes a class; the last argument is the prefix of its qualified name."""


@dataclass(slots=True)
class Scope:
    """The function, class or module that is being lowered."""

    prefix: str
    """Comes before names defined here: ``""``, ``"Ring."``, ``"run.<locals>."``."""
    yields: bool = False


@dataclass(slots=True)
class Context:
    segment: Segment
    index_class: IndexClass
    scope: Scope = field(default_factory=lambda: Scope(""))

    @property
    def source(self) -> SourceText:
        return self.segment.source

    @contextmanager
    def function(self, qualname: str) -> Iterator[Scope]:
        """Inside is the scope of a function, which knows afterwards whether it yields."""
        outer = self.scope
        self.scope = Scope(f"{qualname}.<locals>.")
        try:
            yield self.scope
        finally:
            self.scope = outer
