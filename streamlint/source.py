"""Places in source text."""

from __future__ import annotations

from streamlint.frozen import frozen


@frozen(order=True)
class Span:
    """A stretch of one source file.

    Lines count from 1, columns from 0 in Unicode code points; the end is exclusive. Outputs
    that count otherwise (SARIF and editors) convert at their own edge.
    """

    path: str
    line: int
    col: int
    end_line: int
    end_col: int

    def has_lines_of(self, other: Span) -> bool:
        """Whether all lines of another stretch are lines of this one."""
        return self.path == other.path and self.line <= other.line and other.end_line <= self.end_line

    def begins_in_line_of(self, other: Span) -> bool:
        """Whether both begin in the same line of the same file."""
        return (self.path, self.line) == (other.path, other.line)

    def line_from(self, reader: Span) -> str:
        """Its line in words: ``line 12``, or ``line 12 of lanes.py`` for who reads another file."""
        if self.path == reader.path:
            return f"line {self.line}"
        parts, others = (path.replace("\\", "/").split("/") for path in (self.path, reader.path))
        many = next((n for n in range(1, len(parts)) if parts[-n:] != others[-n:]), len(parts))
        return f"line {self.line} of {'/'.join(parts[-many:])}"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.col + 1}"
