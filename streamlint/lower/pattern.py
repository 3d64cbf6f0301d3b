"""Patterns of ``match``: the plain value they compare with, and the names they capture."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.lower.expr import lower_expr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.lower.context import Context


def lower_case(cx: Context, node: ast.pattern) -> tuple[ir.Expr | None, tuple[str, ...]]:
    """The value that a subject is compared with, and the captured names.

    ``None`` says that the pattern always matches. A pattern that tests more than equality
    (``case Copy(stream=s)``, ``case "a" | "b"``) is ``Opaque`` with the values in it.
    """
    return _value(cx, node), tuple(_captures(node))


def _value(cx: Context, node: ast.pattern) -> ir.Expr | None:
    match node:
        case ast.MatchValue(value=value):
            return lower_expr(cx, value)
        case ast.MatchSingleton(value=constant):
            return ir.Const(cx.segment.span(node), constant)
        case ast.MatchAs(pattern=None):
            return None
        case ast.MatchAs(pattern=ast.pattern() as inner):
            return _value(cx, inner)
        case _:
            return ir.Opaque(cx.segment.span(node), "pattern", tuple(_operands(cx, node)))


def _operands(cx: Context, node: ast.pattern) -> Iterator[ir.Expr]:
    """The values that a pattern compares with, and the classes that it asks for, in order."""
    match node:
        case ast.MatchValue(value=value):
            yield lower_expr(cx, value)
        case ast.MatchSingleton(value=constant):
            yield ir.Const(cx.segment.span(node), constant)
        case ast.MatchMapping(keys=keys, patterns=patterns):
            for key, inner in zip(keys, patterns, strict=True):
                yield lower_expr(cx, key)
                yield from _operands(cx, inner)
        case ast.MatchClass(cls=cls):
            yield lower_expr(cx, cls)
            for inner in _inner(node):
                yield from _operands(cx, inner)
        case _:
            for inner in _inner(node):
                yield from _operands(cx, inner)


def _captures(node: ast.pattern) -> Iterator[str]:
    for inner in _inner(node):
        yield from _captures(inner)
    match node:
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case _:
            pass


def _inner(node: ast.pattern) -> Iterator[ast.pattern]:
    return (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.pattern))
