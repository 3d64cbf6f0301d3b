"""What is lowered in one go."""

from __future__ import annotations

from enum import Enum

from streamlint.frozen import frozen

MAX_DEPTH = 1200
"""Levels of syntax-tree nesting that are lowered. libcst's parser is recursive native code and
overflows an 8 MiB stack, ending the process, somewhere above 3000 levels."""

MAX_TEXT = 500_000
"""Characters of one function, or of the statements between two: libcst takes a kilobyte for each."""


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
        """Why libcst cannot be given these lines; empty if it can."""
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
