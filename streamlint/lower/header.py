"""Headers of compound statements: a place shown to the user is one line and not a whole block."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.lower.text import Placed, Segment
    from streamlint.source import Span


def header(segment: Segment, node: ast.stmt) -> Span:
    """The statement up to its colon, the first one behind the last expression of the header.

    Those of ``while (lambda: x)():``, ``if x[1:]:`` and ``def f(a: "T:U" = {1: 2}) -> T:`` are part of an
    expression.
    """
    start = segment.span(node)
    ends = map(segment.end, _parts(node))
    return segment.span(node, segment.source.colon_after(*max([(start.line, start.col), *ends])))


def _parts(node: ast.stmt) -> Sequence[Placed]:
    """Parts of the header, the last one among them."""
    match node:
        case ast.If(test=last) | ast.While(test=last) | ast.For(iter=last) | ast.AsyncFor(iter=last):
            return (last,)
        case ast.Match(subject=last):
            return (last,)
        case ast.With(items=[*_, item]) | ast.AsyncWith(items=[*_, item]):
            return (item.optional_vars or item.context_expr,)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return _parts_of_def(node)
        case ast.ClassDef():
            return [*node.bases, *node.keywords, *getattr(node, "type_params", [])]
        case _:
            return ()


def _parts_of_def(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[Placed]:
    parameters = node.args
    return [
        *parameters.posonlyargs,
        *parameters.args,
        *parameters.kwonlyargs,
        *(extra for extra in (parameters.vararg, parameters.kwarg) if extra is not None),
        *parameters.defaults,
        *(default for default in parameters.kw_defaults if default is not None),
        *([node.returns] if node.returns is not None else []),
        *getattr(node, "type_params", []),
    ]
