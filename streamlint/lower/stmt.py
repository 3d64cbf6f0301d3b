"""Statements: libcst to IR."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from streamlint import ir
from streamlint.lower.expr import child_expressions, lower_expr, lower_params
from streamlint.lower.imports import from_import, plain_import
from streamlint.lower.operators import AUGMENTED
from streamlint.lower.pattern import lower_case

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.lower.context import Context


def lower_statements(cx: Context, nodes: Sequence[cst.CSTNode]) -> tuple[ir.Stmt, ...]:
    """Statements of one block, in order; ``pass`` and type aliases leave nothing."""
    lowered: list[ir.Stmt] = []
    for node in nodes:
        if isinstance(node, cst.SimpleStatementLine):
            for small in node.body:
                lowered.extend(_small(cx, small))
        elif isinstance(node, cst.BaseSmallStatement):  # x = 1; y = 2 after a colon
            lowered.extend(_small(cx, node))
        else:
            lowered.append(_compound(cx, node))
    return tuple(lowered)


def lower_def(cx: Context, node: cst.FunctionDef) -> ir.Function:
    """A ``def``. Decorators, defaults and annotations are evaluated outside its scope."""
    name = node.name.value
    qualname = cx.scope.prefix + name
    decorators = tuple(lower_expr(cx, decorator.decorator) for decorator in node.decorators)
    params = lower_params(cx, node.params)
    returns = _optional(cx, node.returns.annotation if node.returns is not None else None)
    with cx.function(qualname) as scope:
        body = _suite(cx, node.body)
    return ir.Function(
        name=name,
        qualname=qualname,
        module=cx.source.module,
        span=cx.positions.header(node, node.body),
        params=params,
        body=body,
        decorators=decorators,
        is_generator=scope.yields,
        is_async=node.asynchronous is not None,
        returns=returns,
    )


def _suite(cx: Context, suite: cst.BaseSuite) -> tuple[ir.Stmt, ...]:
    return lower_statements(cx, suite.body)


def _optional(cx: Context, node: cst.BaseExpression | None) -> ir.Expr | None:
    return None if node is None else lower_expr(cx, node)


def _small(cx: Context, node: cst.BaseSmallStatement) -> Iterator[ir.Stmt]:  # noqa: C901, PLR0912 -- flat dispatch
    span = cx.positions.span(node)
    match node:
        case cst.Expr(value=value):
            yield ir.Eval(span, lower_expr(cx, value))
        case cst.Assign(targets=targets, value=value):
            yield ir.Assign(span, tuple(lower_expr(cx, t.target) for t in targets), lower_expr(cx, value))
        case cst.AnnAssign(target=target, value=None):
            annotation = lower_expr(cx, node.annotation.annotation)
            yield ir.Declare(span, lower_expr(cx, target), annotation)
        case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
            yield ir.Assign(span, (lower_expr(cx, target),), lower_expr(cx, value))
            yield ir.Declare(span, lower_expr(cx, target), lower_expr(cx, node.annotation.annotation))
        case cst.AugAssign(target=target, operator=operator, value=value):
            op = AUGMENTED.get(type(operator), "?")
            yield ir.AugAssign(span, op, lower_expr(cx, target), lower_expr(cx, value))
        case cst.Return(value=returned):
            yield ir.Return(span, _optional(cx, returned))
        case cst.Raise(exc=exc):
            yield ir.Raise(span, _optional(cx, exc))
        case cst.Assert(test=test):
            yield ir.Assert(span, lower_expr(cx, test))
        case cst.Del(target=target):
            yield ir.Delete(span, tuple(_deleted(cx, target)))
        case cst.Break():
            yield ir.Jump(span, "break")
        case cst.Continue():
            yield ir.Jump(span, "continue")
        case cst.Global(names=names):
            yield ir.Scope(span, "global", tuple(item.name.value for item in names))
        case cst.Nonlocal(names=names):
            yield ir.Scope(span, "nonlocal", tuple(item.name.value for item in names))
        case cst.Import() | cst.ImportFrom():
            yield from _imports(cx, node)
        case cst.Pass() | cst.TypeAlias():
            pass
        case _:
            yield ir.Eval(span, ir.Opaque(span, type(node).__name__, child_expressions(cx, node)))


def _deleted(cx: Context, node: cst.BaseExpression) -> Iterator[ir.Expr]:
    """``del a, (b, c)`` deletes each of the three."""
    if isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from _deleted(cx, element.value)
    else:
        yield lower_expr(cx, node)


def _imports(cx: Context, node: cst.Import | cst.ImportFrom) -> Iterator[ir.Import]:
    span = cx.positions.span(node)
    if isinstance(node, cst.Import):
        for alias in node.names:
            yield plain_import(span, _dotted(alias.name), _alias(alias))
        return
    module = "" if node.module is None else _dotted(node.module)
    level = len(node.relative)
    if isinstance(node.names, cst.ImportStar):
        yield from_import(span, cx.source, level, module, "*", None)
        return
    for alias in node.names:
        yield from_import(span, cx.source, level, module, _dotted(alias.name), _alias(alias))


def _alias(alias: cst.ImportAlias) -> str | None:
    name = None if alias.asname is None else alias.asname.name
    return name.value if isinstance(name, cst.Name) else None


def _dotted(node: cst.Attribute | cst.Name | cst.BaseExpression) -> str:
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    parts.append(node.value if isinstance(node, cst.Name) else "?")
    return ".".join(reversed(parts))


def _compound(cx: Context, node: cst.CSTNode) -> ir.Stmt:
    match node:
        case cst.If():
            return _if(cx, node)
        case cst.With():
            header = cx.positions.header(node, node.body)
            items = tuple(_with_item(cx, item) for item in node.items)
            return ir.With(header, items, _suite(cx, node.body), node.asynchronous is not None)
        case cst.For():
            return ir.For(
                cx.positions.header(node, node.body),
                lower_expr(cx, node.target),
                lower_expr(cx, node.iter),
                _suite(cx, node.body),
                _else(cx, node.orelse),
                node.asynchronous is not None,
            )
        case cst.While():
            header = cx.positions.header(node, node.body)
            test = lower_expr(cx, node.test)
            return ir.While(header, test, _suite(cx, node.body), _else(cx, node.orelse))
        case cst.Try() | cst.TryStar():
            return _try(cx, node)
        case cst.FunctionDef():
            function = lower_def(cx, node)
            return ir.FunctionDef(function.span, function)
        case cst.ClassDef():
            first, last = cx.positions.lines_of_class(node)
            decl = cx.index_class(cx.source, first, last, cx.scope.prefix)
            return ir.ClassDef(decl.span, decl)
        case cst.Match():
            header = cx.positions.header_of_match(node)
            subject = lower_expr(cx, node.subject)
            return ir.Match(header, subject, tuple(_case(cx, case) for case in node.cases))
        case _:
            span = cx.positions.span(node)
            return ir.Eval(span, ir.Opaque(span, type(node).__name__, child_expressions(cx, node)))


def _if(cx: Context, node: cst.If) -> ir.If:
    """``elif`` is an ``if`` that is alone in the ``else``. Built from the last one outwards."""
    chain = [node]
    while isinstance(chain[-1].orelse, cst.If):
        chain.append(chain[-1].orelse)
    lowered = [
        (cx.positions.header(link, link.body), lower_expr(cx, link.test), _suite(cx, link.body))
        for link in chain
    ]
    last = chain[-1].orelse
    orelse = _else(cx, last) if isinstance(last, cst.Else) else ()
    for header, test, body in reversed(lowered[1:]):
        orelse = (ir.If(header, test, body, orelse),)
    return ir.If(*lowered[0], orelse)


def _else(cx: Context, node: cst.Else | cst.Finally | None) -> tuple[ir.Stmt, ...]:
    return () if node is None else _suite(cx, node.body)


def _with_item(cx: Context, item: cst.WithItem) -> ir.WithItem:
    target = None if item.asname is None else item.asname.name
    return ir.WithItem(lower_expr(cx, item.item), _optional(cx, target))


def _try(cx: Context, node: cst.Try | cst.TryStar) -> ir.Try:
    header = cx.positions.header(node, node.body)
    body = _suite(cx, node.body)
    handlers = tuple(_handler(cx, handler) for handler in node.handlers)
    return ir.Try(header, body, handlers, _else(cx, node.orelse), _else(cx, node.finalbody))


def _handler(cx: Context, node: cst.ExceptHandler | cst.ExceptStarHandler) -> ir.Handler:
    bound = None if node.name is None else node.name.name
    name = bound.value if isinstance(bound, cst.Name) else None
    return ir.Handler(_optional(cx, node.type), name, _suite(cx, node.body))


def _case(cx: Context, node: cst.MatchCase) -> ir.Case:
    pattern, captures = lower_case(cx, node.pattern)
    return ir.Case(pattern, captures, _optional(cx, node.guard), _suite(cx, node.body))
