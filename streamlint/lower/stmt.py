"""Statements: ``ast`` to IR."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from streamlint import ir
from streamlint.frozen import replace
from streamlint.lower.expr import child_expressions, lower_expr, lower_params, optional
from streamlint.lower.header import header
from streamlint.lower.imports import lower_imports
from streamlint.lower.operators import BINARY
from streamlint.lower.pattern import lower_case
from streamlint.lower.scan import TRIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.lower.context import Context

_Def: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"
_TYPE_ALIAS: type[ast.stmt] = getattr(ast, "TypeAlias", ast.Pass)
"""``type Lanes = list[Stream]``, from Python 3.12 on."""


def lower_statements(cx: Context, nodes: Sequence[ast.stmt]) -> tuple[ir.Stmt, ...]:
    """Statements of one block, in order; ``pass`` and type aliases leave nothing."""
    lowered: list[ir.Stmt] = []
    for node in nodes:
        for statement in _simple(cx, node):
            before = lowered[-1] if lowered else None
            if isinstance(statement, ir.Raise) and isinstance(before, ir.If) and _goes_around(before):
                lowered[-1] = replace(before, orelse=(statement,))
            else:
                lowered.append(statement)
    return tuple(lowered)


def _goes_around(test: ir.If) -> bool:
    """Whether what follows is the other arm: ``if x in known: return known[x]``, ``raise KeyError(x)``."""
    return not test.orelse and bool(test.body) and isinstance(test.body[-1], (ir.Return, ir.Jump))


def lower_def(cx: Context, node: _Def) -> ir.Function:
    """A ``def``. Decorators, defaults and annotations are evaluated outside its scope."""
    qualname = cx.scope.prefix + node.name
    decorators = tuple(lower_expr(cx, decorator) for decorator in node.decorator_list)
    params = lower_params(cx, node.args)
    returns = optional(cx, node.returns)
    with cx.function(qualname) as scope:
        body = lower_statements(cx, node.body)
    return ir.Function(
        name=node.name,
        qualname=qualname,
        module=cx.source.module,
        span=header(cx.segment, node),
        params=params,
        body=body,
        decorators=decorators,
        is_generator=scope.yields,
        is_async=isinstance(node, ast.AsyncFunctionDef),
        returns=returns,
    )


def _simple(cx: Context, node: ast.stmt) -> Iterator[ir.Stmt]:  # noqa: C901, PLR0912 -- flat dispatch
    match node:
        case ast.Expr(value=value):
            yield ir.Eval(cx.segment.span(node), lower_expr(cx, value))
        case ast.Assign(targets=targets, value=value):
            yield ir.Assign(
                cx.segment.span(node), tuple([lower_expr(cx, t) for t in targets]), lower_expr(cx, value)
            )
        case ast.Return(value=returned):
            yield ir.Return(cx.segment.span(node), optional(cx, returned))
        case ast.AnnAssign(target=target, annotation=annotation, value=given):
            span = cx.segment.span(node)
            if given is not None:
                yield ir.Assign(span, (lower_expr(cx, target),), lower_expr(cx, given))
            yield ir.Declare(span, lower_expr(cx, target), lower_expr(cx, annotation))
        case ast.AugAssign(target=target, op=operator, value=value):
            op = BINARY.get(type(operator), "?")
            yield ir.AugAssign(cx.segment.span(node), op, lower_expr(cx, target), lower_expr(cx, value))
        case ast.Raise(exc=exc):
            yield ir.Raise(cx.segment.span(node), optional(cx, exc))
        case ast.Assert(test=test):
            yield ir.Assert(cx.segment.span(node), lower_expr(cx, test))
        case ast.Delete(targets=targets):
            yield ir.Delete(cx.segment.span(node), tuple(_deleted(cx, targets)))
        case ast.Break():
            yield ir.Jump(cx.segment.span(node), "break")
        case ast.Continue():
            yield ir.Jump(cx.segment.span(node), "continue")
        case ast.Global(names=names):
            yield ir.Scope(cx.segment.span(node), "global", tuple(names))
        case ast.Nonlocal(names=names):
            yield ir.Scope(cx.segment.span(node), "nonlocal", tuple(names))
        case ast.Import() | ast.ImportFrom():
            yield from lower_imports(cx.segment, node)
        case ast.Pass():
            pass
        case _ if not isinstance(node, _TYPE_ALIAS):
            yield _compound(cx, node)


def _deleted(cx: Context, nodes: Sequence[ast.expr]) -> Iterator[ir.Expr]:
    """``del a, (b, c)`` deletes each of the three."""
    for node in nodes:
        if isinstance(node, (ast.Tuple, ast.List)):
            yield from _deleted(cx, node.elts)
        else:
            yield lower_expr(cx, node)


def _compound(cx: Context, node: ast.stmt) -> ir.Stmt:
    match node:
        case ast.If():
            return _if(cx, node)
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            return ir.With(
                header(cx.segment, node),
                tuple(_with_item(cx, item) for item in items),
                lower_statements(cx, body),
                isinstance(node, ast.AsyncWith),
            )
        case ast.For() | ast.AsyncFor():
            return ir.For(
                header(cx.segment, node),
                lower_expr(cx, node.target),
                lower_expr(cx, node.iter),
                lower_statements(cx, node.body),
                lower_statements(cx, node.orelse),
                isinstance(node, ast.AsyncFor),
            )
        case ast.While(test=test, body=body, orelse=orelse):
            return ir.While(
                header(cx.segment, node),
                lower_expr(cx, test),
                lower_statements(cx, body),
                lower_statements(cx, orelse),
            )
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            function = lower_def(cx, node)
            return ir.FunctionDef(function.span, function)
        case ast.ClassDef():
            decl = cx.index_class(cx.segment, node, cx.scope.prefix)
            return ir.ClassDef(decl.span, decl)
        case ast.Match(subject=subject, cases=cases):
            lowered = tuple(_case(cx, case) for case in cases)
            return ir.Match(header(cx.segment, node), lower_expr(cx, subject), lowered)
        case _ if isinstance(node, TRIES):
            return _try(cx, node)
        case _:
            span = cx.segment.span(node)
            return ir.Eval(span, ir.Opaque(span, type(node).__name__, child_expressions(cx, node)))


def _if(cx: Context, node: ast.If) -> ir.If:
    """``elif`` is an ``if`` that is alone in the ``else``. Built from the last one outwards."""
    chain = [node]
    orelse = node.orelse
    while len(orelse) == 1 and isinstance(link := orelse[0], ast.If):
        chain.append(link)
        orelse = link.orelse
    lowered = [
        (header(cx.segment, link), lower_expr(cx, link.test), lower_statements(cx, link.body))
        for link in chain
    ]
    otherwise = lower_statements(cx, orelse)
    for span, test, body in reversed(lowered[1:]):
        otherwise = (ir.If(span, test, body, otherwise),)
    return ir.If(*lowered[0], otherwise)


def _with_item(cx: Context, item: ast.withitem) -> ir.WithItem:
    return ir.WithItem(lower_expr(cx, item.context_expr), optional(cx, item.optional_vars))


def _try(cx: Context, node: ast.Try) -> ir.Try:
    return ir.Try(
        header(cx.segment, node),
        lower_statements(cx, node.body),
        tuple(_handler(cx, handler) for handler in node.handlers),
        lower_statements(cx, node.orelse),
        lower_statements(cx, node.finalbody),
    )


def _handler(cx: Context, node: ast.ExceptHandler) -> ir.Handler:
    return ir.Handler(optional(cx, node.type), node.name, lower_statements(cx, node.body))


def _case(cx: Context, node: ast.match_case) -> ir.Case:
    pattern, captures = lower_case(cx, node.pattern)
    return ir.Case(pattern, captures, optional(cx, node.guard), lower_statements(cx, node.body))
