"""The beginning of a function that is too large to be read whole.

Machines write functions of a megabyte. Their first mistakes are found, and the rest is named as left out.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from streamlint.lower.scan import DEFINITIONS, TRIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.lower.text import Segment


class _Place(NamedTuple):
    """A statement before which a function can be cut off; lines count from 1."""

    line: int
    column: int
    tries: tuple[int, ...]
    """Columns of the ``try`` statements whose bodies it is in, outermost first: each needs an end."""


def beginning(segment: Segment, size: int) -> str:
    """The text up to the last statement that begins within ``size`` characters, which becomes ``return``.

    The function stays one that parses, with every place where it was::

        with torch.cuda.stream(side):
            y = x * 2
            return

    Raises ``LoweringError`` where its first statement is too large already.
    """
    (function,) = segment.parse_ast()
    lines = segment.text.split("\n")
    ends = 0
    last = len(lines)
    for number, line in enumerate(lines):
        ends += len(line) + 1
        if ends > size:
            last = number + 1
            break
    fitting = [place for place in _places(function, lines, ()) if place.line <= last]
    if not isinstance(function, DEFINITIONS) or len(fitting) < 2:
        raise segment.error(1, f"too large to be read ({len(segment.text)} characters)")
    place = max(fitting)
    kept = [*lines[: place.line - 1], lines[place.line - 1][: place.column] + "return"]
    for column in reversed(place.tries):
        indent = lines[place.line - 1][:column]
        kept.append(f"{indent}finally: pass")
    return "\n".join((*kept, ""))


def _places(node: ast.AST, lines: list[str], tries: tuple[int, ...]) -> Iterator[_Place]:
    """Where statements begin on lines of their own, at any depth; functions and classes are not entered."""
    waiting = [(node, tries)]
    while waiting:
        here, around = waiting.pop()
        for name, block in ast.iter_fields(here):
            for inner in block if isinstance(block, list) else ():
                if not isinstance(inner, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                    continue
                is_body = isinstance(here, TRIES) and name == "body"
                within = (*around, here.col_offset) if is_body and isinstance(here, ast.stmt) else around
                if isinstance(inner, ast.stmt) and _begins_line(inner, lines):
                    yield _Place(inner.lineno, inner.col_offset, within)
                if not isinstance(inner, DEFINITIONS):
                    waiting.append((inner, within))


def _begins_line(statement: ast.stmt, lines: list[str]) -> bool:
    """Not ``b`` of ``a; b``, not ``elif``, which is an ``if`` in an ``else``, and no decorated one."""
    line = lines[statement.lineno - 1]
    before, rest = line[: statement.col_offset], line[statement.col_offset :]
    return not before.strip() and not rest.startswith("elif") and not getattr(statement, "decorator_list", ())
