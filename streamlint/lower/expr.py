"""Expressions: ``ast`` to IR."""

from __future__ import annotations

import ast
from operator import attrgetter
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.lower.operators import BINARY, COMPARISON, UNARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from streamlint.lower.context import Context
    from streamlint.source import Span


def lower_expr(cx: Context, node: ast.expr) -> ir.Expr:  # noqa: C901 -- flat dispatch
    """Any expression; a kind that is not known becomes ``Opaque`` with its operands.

    The commonest kinds stand first: class patterns are tried in order.
    """
    span = cx.segment.span(node)
    match node:
        case ast.Name(id=name):
            return ir.Name(span, name)
        case ast.Attribute(value=value, attr=name):
            return ir.Attr(span, lower_expr(cx, value), name)
        case ast.Constant(value=constant):
            return ir.Const(span, constant)
        case ast.Call(func=func):
            called = lower_expr(cx, func)
            return _by_name(span, called, _args(cx, node))
        case ast.Subscript(value=value, slice=index):
            return ir.Index(span, lower_expr(cx, value), lower_expr(cx, index))
        case ast.Tuple(elts=elements):
            return ir.Seq(span, "tuple", _all(cx, elements))
        case ast.List(elts=elements):
            return ir.Seq(span, "list", _all(cx, elements))
        case ast.BinOp():
            return _binary(cx, node)
        case ast.Compare():
            return _comparison(cx, node, span)
        case ast.BoolOp():
            return _boolean(cx, node, span)
        case ast.UnaryOp(op=operator, operand=operand):
            return ir.Unary(span, UNARY.get(type(operator), "?"), lower_expr(cx, operand))
        case ast.Slice(lower=lo, upper=hi, step=step):
            return ir.Slice(
                span, *(None if bound is None else lower_expr(cx, bound) for bound in (lo, hi, step))
            )
        case _:
            return _rarer(cx, node, span)


def _rarer(cx: Context, node: ast.expr, span: Span) -> ir.Expr:  # noqa: C901 -- flat dispatch
    match node:
        case ast.JoinedStr():
            return _fstring(cx, node, span)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return ir.Choice(span, lower_expr(cx, test), lower_expr(cx, body), lower_expr(cx, orelse))
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return ir.DictDisplay(
                span, tuple((optional(cx, key), lower_expr(cx, value)) for key, value in pairs)
            )
        case ast.Set(elts=elements):
            return ir.Seq(span, "set", _all(cx, elements))
        case ast.ListComp(elt=element, generators=clauses):
            return _comprehension(cx, span, "list", clauses, element)
        case ast.SetComp(elt=element, generators=clauses):
            return _comprehension(cx, span, "set", clauses, element)
        case ast.GeneratorExp(elt=element, generators=clauses):
            return _comprehension(cx, span, "generator", clauses, element)
        case ast.DictComp(key=key, value=value, generators=clauses):
            return _comprehension(cx, span, "dict", clauses, value, key)
        case ast.Lambda():
            return _lambda(cx, node, span)
        case ast.Starred(value=value):
            return ir.Star(span, lower_expr(cx, value))
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            return ir.Bind(span, name, lower_expr(cx, value))
        case ast.Await(value=value):
            return ir.Await(span, lower_expr(cx, value))
        case ast.Yield(value=given):
            cx.scope.yields = True
            return ir.Yield(span, optional(cx, given))
        case ast.YieldFrom(value=value):
            cx.scope.yields = True
            return ir.Yield(span, lower_expr(cx, value), delegate=True)
        case _:
            return ir.Opaque(span, type(node).__name__, child_expressions(cx, node))


def _fstring(cx: Context, node: ast.JoinedStr, span: Span) -> ir.Opaque:
    """``texts`` are known of an f-string none of whose values has a format of its own."""
    texts: tuple[str, ...] = ("",)
    for part in node.values:
        match part:
            case ast.Constant(value=str() as text):
                texts = (*texts[:-1], texts[-1] + text)
            case ast.FormattedValue(conversion=-1, format_spec=None):
                texts += ("",)
            case _:
                texts = ()
                break
    return ir.Opaque(span, "f-string", _all(cx, _values(node)), texts)


def _values(node: ast.JoinedStr) -> Iterator[ast.expr]:
    """The values, also those of format specifications (``f"{x:{width}}"``), in order."""
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            yield part.value
            if isinstance(part.format_spec, ast.JoinedStr):
                yield from _values(part.format_spec)


def optional(cx: Context, node: ast.expr | None) -> ir.Expr | None:
    """What there may be none of: the value of ``return``."""
    return None if node is None else lower_expr(cx, node)


def child_expressions(cx: Context, node: ast.AST) -> tuple[ir.Expr, ...]:
    """The nearest expressions below a node of unknown kind, in order."""
    return tuple(lower_expr(cx, inner) for inner in _nearest(node))


def _nearest(node: ast.AST) -> Iterator[ast.expr]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        else:
            yield from _nearest(child)


def _all(cx: Context, nodes: Iterable[ast.expr]) -> tuple[ir.Expr, ...]:
    return tuple([lower_expr(cx, node) for node in nodes])


_PLACE = attrgetter("lineno", "col_offset")


def _args(cx: Context, node: ast.Call) -> tuple[ir.Arg, ...]:
    """Arguments in the order in which they are written; ``*rest`` may stand behind keywords."""
    given: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
    if node.keywords and node.args and isinstance(node.args[-1], ast.Starred):
        given.sort(key=_PLACE)
    return tuple([_arg(cx, arg) for arg in given])


def _arg(cx: Context, node: ast.expr | ast.keyword) -> ir.Arg:
    match node:
        case ast.keyword(arg=name, value=value):
            return ir.Arg(lower_expr(cx, value), name, "**" if name is None else "")
        case ast.Starred(value=value):
            return ir.Arg(lower_expr(cx, value), None, "*")
        case _:
            return ir.Arg(lower_expr(cx, node))


def _by_name(span: Span, called: ir.Expr, args: tuple[ir.Arg, ...]) -> ir.Expr:
    """A call; ``getattr(event, "wait")`` is ``event.wait``, in whatever text that is looked for.

    Not with a third argument, which an object may give that has no such attribute, nor of a name with two
    underscores in front, which a class would change.
    """
    match called, args:
        case (
            ir.Name(id="getattr"),
            (ir.Arg(value=owner, keyword=None, star=""), ir.Arg(value=ir.Const(value=str() as name))),
        ) if name.isidentifier() and not name.startswith("__"):
            return ir.Attr(span, owner, name)
        case _:
            return ir.Call(span, called, args)


def _binary(cx: Context, node: ast.BinOp) -> ir.Expr:
    """``a + b + c`` hangs to the left as deep as it is long: down and up again without recursion."""
    spine = [node]
    while isinstance(left := spine[-1].left, ast.BinOp):
        spine.append(left)
    result = lower_expr(cx, left)
    for link in reversed(spine):
        op = BINARY.get(type(link.op), "?")
        result = ir.Binary(cx.segment.span(link), op, result, lower_expr(cx, link.right))
    return result


def _boolean(cx: Context, node: ast.BoolOp, span: Span) -> ir.Boolean:
    """``(a and b) and c`` has three operands as ``a and b and c`` has."""
    kind = type(node.op)
    operands = list(node.values)
    while isinstance(first := operands[0], ast.BoolOp) and type(first.op) is kind:
        operands[:1] = first.values
    return ir.Boolean(span, "and" if kind is ast.And else "or", _all(cx, operands))


def _comparison(cx: Context, node: ast.Compare, span: Span) -> ir.Expr:
    """``a < b < c`` is ``a < b and b < c``."""
    left_node, left = node.left, lower_expr(cx, node.left)
    links: list[ir.Compare] = []
    for operator, right_node in zip(node.ops, node.comparators, strict=True):
        right = lower_expr(cx, right_node)
        whole = span
        if len(node.ops) > 1:
            whole = cx.segment.span(left_node, cx.segment.end(right_node))
        links.append(ir.Compare(whole, COMPARISON.get(type(operator), "?"), left, right))
        left_node, left = right_node, right
    return links[0] if len(links) == 1 else ir.Boolean(span, "and", tuple(links))


def _comprehension(
    cx: Context,
    span: Span,
    kind: str,
    clauses: Sequence[ast.comprehension],
    element: ast.expr,
    key: ast.expr | None = None,
) -> ir.Comprehension:
    generators = tuple(
        ir.Generator(lower_expr(cx, clause.target), lower_expr(cx, clause.iter), _all(cx, clause.ifs))
        for clause in clauses
    )
    return ir.Comprehension(span, kind, lower_expr(cx, element), generators, optional(cx, key))


def _lambda(cx: Context, node: ast.Lambda, span: Span) -> ir.Lambda:
    qualname = f"{cx.scope.prefix}<lambda>"
    params = lower_params(cx, node.args)
    with cx.function(qualname) as scope:
        body = (ir.Return(cx.segment.span(node.body), lower_expr(cx, node.body)),)
    return ir.Lambda(
        span,
        ir.Function("<lambda>", qualname, cx.source.module, span, params, body, is_generator=scope.yields),
    )


def lower_params(cx: Context, node: ast.arguments) -> tuple[ir.Param, ...]:
    """Parameters in the order in which they are written; a bare ``*`` and ``/`` leave none."""
    plain = [*node.posonlyargs, *node.args]
    without = len(plain) - len(node.defaults)
    defaults = [*[None] * without, *node.defaults]
    params = [_param(cx, arg, "positional", default) for arg, default in zip(plain, defaults, strict=True)]
    if node.vararg is not None:
        params.append(_param(cx, node.vararg, "*"))
    for arg, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
        params.append(_param(cx, arg, "keyword", default))
    if node.kwarg is not None:
        params.append(_param(cx, node.kwarg, "**"))
    return tuple(params)


def _param(cx: Context, node: ast.arg, kind: str, default: ast.expr | None = None) -> ir.Param:
    return ir.Param(node.arg, kind, optional(cx, default), optional(cx, node.annotation))
