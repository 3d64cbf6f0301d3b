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

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.col + 1}"
