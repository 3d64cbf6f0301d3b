"""Patterns of ``match``: the plain value they compare with, and the names they capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from streamlint import ir
from streamlint.lower.expr import lower_expr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.lower.context import Context


def lower_case(cx: Context, node: cst.MatchPattern) -> tuple[ir.Expr | None, tuple[str, ...]]:
    """The value that a subject is compared with, and the captured names.

    ``None`` says that the pattern always matches. A pattern that tests more than equality
    (``case Copy(stream=s)``, ``case "a" | "b"``) is ``Opaque`` with the values in it.
    """
    return _value(cx, node), tuple(_captures(node))


def _value(cx: Context, node: cst.MatchPattern) -> ir.Expr | None:
    match node:
        case cst.MatchValue(value=value) | cst.MatchSingleton(value=value):
            return lower_expr(cx, value)
        case cst.MatchAs(pattern=None):
            return None
        case cst.MatchAs(pattern=cst.MatchPattern() as inner):
            return _value(cx, inner)
        case _:
            return ir.Opaque(cx.positions.span(node), "pattern", tuple(_operands(cx, node)))


def _operands(cx: Context, node: cst.CSTNode) -> Iterator[ir.Expr]:
    for child in node.children:
        match child:
            case cst.MatchValue(value=value):
                yield lower_expr(cx, value)
            case cst.Name() if isinstance(node, (cst.MatchAs, cst.MatchStar, cst.MatchMapping)):
                pass  # a capture
            case cst.Name() if isinstance(node, cst.MatchKeywordElement):
                pass  # the attribute in Copy(stream=s)
            case cst.BaseExpression():
                yield lower_expr(cx, child)
            case _:
                yield from _operands(cx, child)


def _captures(node: cst.CSTNode) -> Iterator[str]:
    match node:
        case cst.MatchAs(name=cst.Name(value=name)) | cst.MatchStar(name=cst.Name(value=name)):
            inner = node.pattern if isinstance(node, cst.MatchAs) else None
            if inner is not None:
                yield from _captures(inner)
            yield name
        case cst.MatchMapping(rest=cst.Name(value=name)):
            for element in node.elements:
                yield from _captures(element)
            yield name
        case cst.BaseExpression():
            return
        case _:
            for child in node.children:
                yield from _captures(child)
