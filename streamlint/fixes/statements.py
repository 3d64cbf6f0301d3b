"""Statements that are nothing but one call: taken out, moved, or made another call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from streamlint import models
from streamlint.finding import Edit
from streamlint.source import Span

if TYPE_CHECKING:
    from streamlint.fixes.places import Place
    from streamlint.fixes.text import Source


def is_only(place: Place, span: Span) -> bool:
    """Whether a statement is nothing but the call at ``span``, or a check of the status that it returns."""
    source, statement = place.source, place.statement
    if not isinstance(statement, ast.Expr) or not source.stands_alone(statement):
        return False
    call = statement.value
    if _is_at(source, call, span):
        return True
    match call:
        case ast.Call(func=ast.Name(), args=[ast.Call(func=func) as inner], keywords=[]):
            row = models.find_function(place.sight.path_of(ast.unparse(func)) or "")
            return _is_at(source, inner, span) and row is not None and row[1].status
        case _:
            return False


def _is_at(source: Source, node: ast.expr, span: Span) -> bool:
    whole = (span.line, span.col), (span.end_line, span.end_col)
    return isinstance(node, ast.Call) and (source.start(node), source.end(node)) == whole


def with_keyword(place: Place, span: Span, path: str, keyword: str, value: str) -> Edit | None:
    """Puts a keyword behind the arguments of a call of a library's function, where it has it not."""
    source = place.source
    calls = (node for node in ast.walk(place.statement) if isinstance(node, ast.Call))
    call = next((node for node in calls if _is_at(source, node, span)), None)
    if call is None or place.sight.path_of(ast.unparse(call.func)) != path:
        return None
    line, col = source.end(call)
    before = source.lines[line - 1][: col - 1].rstrip()
    if any(one.arg in (keyword, None) for one in call.keywords) or not before or before[-1] in ",(":
        return None
    return Edit(Span(source.path, line, col - 1, line, col - 1), f", {keyword}={value}")


def removal(source: Source, statement: ast.stmt) -> Edit:
    """Takes a statement out, with its lines; ``pass`` stands for the only one of a block."""
    line, end = statement.lineno, statement.end_lineno or statement.lineno
    text = f"{source.indent(statement) or ''}pass\n" if len(source.block(statement)) == 1 else ""
    return Edit(Span(source.path, line, 0, end + 1, 0), text)


def moved(source: Source, statement: ast.stmt, to: Place) -> tuple[Edit, ...] | None:
    """Takes a statement out and puts it at a place of the same file; None if it has several lines."""
    if to.source is not source or (statement.end_lineno or 0) != statement.lineno:
        return None
    text = source.lines[statement.lineno - 1].strip()
    return removal(source, statement), to.insertion((text,))


def replaced(source: Source, statement: ast.stmt, text: str) -> Edit:
    """Puts other code in the place of a statement; a comment behind it stays."""
    (line, col), (end_line, end_col) = source.start(statement), source.end(statement)
    return Edit(Span(source.path, line, col, end_line, end_col), text)
