"""Source text with line and column arithmetic, shared by the index and by the lowering of bodies."""

from __future__ import annotations

import ast
import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from streamlint.frozen import frozen
from streamlint.ir import LoweringError
from streamlint.parsing import UnparsableError, parse
from streamlint.source import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")

Placed: TypeAlias = "ast.expr | ast.stmt | ast.pattern | ast.arg | ast.keyword"
_FRAMES_PER_LEVEL = 6
"""``lower_expr``, ``_args``, its loop and ``_arg`` for an argument; one more for a statement."""


@frozen()
class SourceText:
    r"""One file: ``lines`` without their ends, the first one at index 0 being line 1.

    Only ``\n``, ``\r\n`` and ``\r`` end a line, as in Python's own tokenizer (``str.splitlines``
    also splits at form feeds, which are common between functions of old code).
    """

    path: str
    module: str
    is_package: bool
    lines: tuple[str, ...]

    @classmethod
    def of(cls, text: str, path: str, module: str, is_package: bool) -> SourceText:
        text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        return cls(path, module, is_package, tuple(text.split("\n")))

    def segment(self, first: int, last: int) -> Segment:
        """Lines ``first`` to ``last``, both included, as a unit that parses on its own."""
        lines = self.lines[first - 1 : last]
        if lines and lines[-1].endswith("\\"):
            lines += ("",)  # the empty line to which it leads, without which it is no Python
        if lines and lines[0][:1] in (" ", "\t", "\f"):
            # An indented block needs a header, and one line more is cheaper than a dedent, which
            # would also change the text of strings over several lines.
            return Segment(self, "\n".join(("if 1:", *lines, "")), first - 2, True)
        return Segment(self, "\n".join((*lines, "")), first - 1, False)

    def size(self, first: int, last: int) -> int:
        """Characters of some lines, both included."""
        return sum(map(len, self.lines[first - 1 : last])) + last - first + 1

    def column(self, line: int, utf8_column: int) -> int:
        """Code points before a UTF-8 byte column, which is what ``ast`` counts."""
        text = self.lines[line - 1]
        return utf8_column if text.isascii() else len(text.encode()[:utf8_column].decode(errors="replace"))

    def colon_after(self, line: int, col: int) -> tuple[int, int]:
        """Line and column just after the first colon from a place on that stands in no comment."""
        for number in range(line, len(self.lines) + 1):
            code = self.lines[number - 1][col:].partition("#")[0]
            if ":" in code:
                return number, col + code.index(":") + 1
            col = 0
        return line, len(self.lines[line - 1])


@frozen()
class Segment:
    """Some whole lines of a file. Line 1 of ``text`` is line ``shift + 1`` of the file."""

    source: SourceText
    text: str
    shift: int
    wrapped: bool
    """``text`` starts with the line ``if 1:``, which is not in the file."""

    def error(self, line: int, message: str) -> LoweringError:
        """``line`` counts in the segment."""
        return LoweringError(self.source.path, max(1, line + self.shift), message)

    def parse_ast(self) -> list[ast.stmt]:
        """The statements, their lines counted in the segment; raises ``LoweringError``."""
        try:
            tree = parse(self.text)
        except UnparsableError as error:
            raise self.error(error.line, str(error)) from None
        first = tree.body[0] if self.wrapped and tree.body else None
        return first.body if isinstance(first, ast.If) else tree.body

    def span(self, node: Placed, end: tuple[int, int] | None = None) -> Span:
        """The place of a node of ``parse_ast`` in the file; ``end`` replaces its end."""
        source, line, col = self.source, node.lineno + self.shift, node.col_offset
        if not self.text.isascii():
            col = source.column(line, col)
        end_line, end_col = self.end(node) if end is None else end
        return Span(source.path, line, col, end_line, end_col)

    def end(self, node: Placed) -> tuple[int, int]:
        """Where a node of ``parse_ast`` ends in the file, in code points."""
        line, col = (node.end_lineno or 1) + self.shift, node.end_col_offset or 0
        return line, col if self.text.isascii() else self.source.column(line, col)


class Lazy(Generic[_T]):
    """A value made at the first call and kept; so is a ``LoweringError`` raised by making it."""

    __slots__ = ("_error", "_make", "_value")

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make: Callable[[], _T] | None = make
        self._value: _T | None = None
        self._error: LoweringError | None = None

    @property
    def is_made(self) -> bool:
        """Whether the value is there; what was needed to make it is let go then."""
        return self._make is None and self._error is None

    def __call__(self) -> _T:
        if self._make is not None:
            try:
                self._value = self._make()
            except LoweringError as error:
                self._error = error
            self._make = None
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


@contextmanager
def gc_paused() -> Iterator[None]:
    """No cyclic garbage collection inside: syntax trees are many objects that are all alive."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def recursion_room(depth: int) -> Iterator[None]:
    """Room for recursion over a tree of that depth on top of what the caller already used."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 500 + _FRAMES_PER_LEVEL * depth)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
