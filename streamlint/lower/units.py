"""What is lowered in one go."""

from __future__ import annotations

from enum import Enum

from streamlint.frozen import frozen

MAX_DEPTH = 1200
"""Levels of syntax-tree nesting that are lowered. The lowering recurses, and so does what runs the lowered
form: Python 3.10 does it on the stack of C, whose end ends the process, and 3.12 bounds calls by way of C."""

MAX_TEXT = 500_000
"""Characters of one function, or of the statements between two: 200 bytes for each while they are parsed and
lowered, 50 as long as the lowered form is kept, and whatever running them takes."""


@frozen()
class Lines:
    """Lines of a file, counted from 1, the last one included; ``depth`` of the syntax tree on them."""

    first: int
    last: int
    depth: int
    size: int
    """Characters."""

    @property
    def unreadable(self) -> str:
        """Why these lines are not lowered; empty if they are."""
        if self.depth > MAX_DEPTH:
            return f"nested too deeply ({self.depth} levels)"
        return f"too large to be read ({self.size} characters)" if self.size > MAX_TEXT else ""

    def joined(self, other: Lines) -> Lines:
        return Lines(
            min(self.first, other.first),
            max(self.last, other.last),
            max(self.depth, other.depth),
            self.size + other.size,
        )


class BlockKind(Enum):
    MODULE = "module"
    CLASS = "class"
    ONE_LINE_CLASS = "class on one line"
    """The run of lines is the whole class and not its body only."""


@frozen()
class Block:
    """The statements of a module or class outside its definitions."""

    runs: tuple[Lines, ...]
    prefix: str
    kind: BlockKind
