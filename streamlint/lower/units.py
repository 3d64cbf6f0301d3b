"""What is lowered in one go."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a file, counted from 1, the last one included; ``depth`` of the syntax tree on them."""

    first: int
    last: int
    depth: int

    def joined(self, other: Lines) -> Lines:
        return Lines(min(self.first, other.first), max(self.last, other.last), max(self.depth, other.depth))


class BlockKind(Enum):
    MODULE = "module"
    CLASS = "class"
    ONE_LINE_CLASS = "class on one line"
    """The run of lines is the whole class and not its body only."""


@dataclass(frozen=True, slots=True)
class Block:
    """The statements of a module or class outside its definitions."""

    runs: tuple[Lines, ...]
    prefix: str
    kind: BlockKind
