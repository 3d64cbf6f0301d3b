"""Expressions: libcst to IR."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from streamlint import ir
from streamlint.lower.literal import lower_number, lower_string
from streamlint.lower.operators import BINARY, COMPARISON, UNARY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.lower.context import Context
    from streamlint.source import Span

_CONSTANTS = {"None": None, "True": True, "False": False}


def lower_expr(cx: Context, node: cst.BaseExpression) -> ir.Expr:  # noqa: C901 -- flat dispatch
    """Any expression; a kind that is not known becomes ``Opaque`` with its operands.

    The commonest kinds stand first: class patterns are tried in order.
    """
    match node:
        case cst.Name(value=name):
            span = cx.positions.span(node)
            return ir.Const(span, _CONSTANTS[name]) if name in _CONSTANTS else ir.Name(span, name)
        case cst.Attribute(value=value, attr=attr):
            return ir.Attr(cx.positions.span(node), lower_expr(cx, value), attr.value)
        case cst.Call(func=func, args=args):
            called = lower_expr(cx, func)
            given = tuple(_arg(cx, arg) for arg in args)
            return _by_name(cx.positions.span(node), called, given)
        case cst.Integer() | cst.Float() | cst.Imaginary():
            return lower_number(cx.positions.span(node), node)
        case cst.SimpleString() | cst.ConcatenatedString() | cst.FormattedString():
            operands = tuple(lower_expr(cx, inner) for inner in _formatted(node))
            return lower_string(cx.positions.span(node), node, operands)
        case cst.Subscript(value=value, slice=elements):
            return ir.Index(cx.positions.span(node), lower_expr(cx, value), _subscript(cx, elements))
        case cst.Tuple(elements=elements):
            return _display(cx, node, "tuple", elements)
        case cst.List(elements=elements):
            return _display(cx, node, "list", elements)
        case cst.Set(elements=elements):
            return _display(cx, node, "set", elements)
        case cst.BinaryOperation():
            return _binary(cx, node)
        case cst.Comparison():
            return _comparison(cx, node)
        case cst.BooleanOperation():
            return _boolean(cx, node)
        case _:
            return _rarer(cx, node)


def _rarer(cx: Context, node: cst.BaseExpression) -> ir.Expr:  # noqa: C901 -- flat dispatch
    span = cx.positions.span(node)
    match node:
        case cst.UnaryOperation(operator=operator, expression=operand):
            return ir.Unary(span, UNARY.get(type(operator), "?"), lower_expr(cx, operand))
        case cst.IfExp(test=test, body=body, orelse=orelse):
            return ir.Choice(span, lower_expr(cx, test), lower_expr(cx, body), lower_expr(cx, orelse))
        case cst.Dict(elements=elements):
            return ir.DictDisplay(span, tuple(_pair(cx, element) for element in elements))
        case cst.ListComp():
            return _comprehension(cx, node, "list", node.elt)
        case cst.SetComp():
            return _comprehension(cx, node, "set", node.elt)
        case cst.GeneratorExp():
            return _comprehension(cx, node, "generator", node.elt)
        case cst.DictComp(key=key, value=value):
            return _comprehension(cx, node, "dict", value, key)
        case cst.Lambda():
            return _lambda(cx, node)
        case cst.StarredElement(value=value):
            return ir.Star(span, lower_expr(cx, value))
        case cst.NamedExpr(target=cst.Name(value=name), value=value):
            return ir.Bind(span, name, lower_expr(cx, value))
        case cst.Await(expression=value):
            return ir.Await(span, lower_expr(cx, value))
        case cst.Yield():
            return _yield(cx, node)
        case cst.Ellipsis():
            return ir.Const(span, ...)
        case _:
            return ir.Opaque(span, type(node).__name__, child_expressions(cx, node))


def child_expressions(cx: Context, node: cst.CSTNode) -> tuple[ir.Expr, ...]:
    """The nearest expressions below a node of unknown kind, in order."""
    return tuple(lower_expr(cx, inner) for inner in _nearest(node))


def _nearest(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    for child in node.children:
        if isinstance(child, cst.BaseExpression):
            yield child
        else:
            yield from _nearest(child)


def _formatted(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The values inside an f-string, also those of its format specifications, in order."""
    match node:
        case cst.ConcatenatedString(left=left, right=right):
            yield from _formatted(left)
            yield from _formatted(right)
        case cst.FormattedString(parts=parts):
            yield from _values_of_parts(parts)


def _values_of_parts(parts: Sequence[cst.BaseFormattedStringContent]) -> Iterator[cst.BaseExpression]:
    for part in parts:
        if isinstance(part, cst.FormattedStringExpression):
            yield part.expression
            yield from _values_of_parts(part.format_spec or ())


def _arg(cx: Context, node: cst.Arg) -> ir.Arg:
    keyword = None if node.keyword is None else node.keyword.value
    return ir.Arg(lower_expr(cx, node.value), keyword, node.star)


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


def _display(cx: Context, node: cst.BaseExpression, kind: str, elements: Sequence[cst.BaseElement]) -> ir.Seq:
    return ir.Seq(cx.positions.span(node), kind, tuple(_element(cx, element) for element in elements))


def _element(cx: Context, node: cst.BaseElement) -> ir.Expr:
    if isinstance(node, cst.StarredElement):
        return ir.Star(cx.positions.span(node), lower_expr(cx, node.value))
    return lower_expr(cx, node.value)


def _pair(cx: Context, node: cst.BaseDictElement) -> tuple[ir.Expr | None, ir.Expr]:
    key = lower_expr(cx, node.key) if isinstance(node, cst.DictElement) else None
    return key, lower_expr(cx, node.value)


def _subscript(cx: Context, elements: Sequence[cst.SubscriptElement]) -> ir.Expr:
    items = tuple(_subscript_item(cx, element.slice) for element in elements)
    # x[a,] has a tuple of one as its index
    if len(items) == 1 and not isinstance(elements[0].comma, cst.Comma) and not isinstance(items[0], ir.Star):
        return items[0]
    return ir.Seq(cx.positions.between(elements[0].slice, elements[-1].slice), "tuple", items)


def _subscript_item(cx: Context, node: cst.BaseSlice) -> ir.Expr:
    match node:
        case cst.Index(value=value, star=None):
            return lower_expr(cx, value)
        case cst.Index(value=value):
            return ir.Star(cx.positions.span(node), lower_expr(cx, value))
        case cst.Slice(lower=lo, upper=hi, step=step):
            bounds = [None if bound is None else lower_expr(cx, bound) for bound in (lo, hi, step)]
            return ir.Slice(cx.positions.span(node), *bounds)
        case _:
            raise TypeError(type(node).__name__)


def _binary(cx: Context, node: cst.BinaryOperation) -> ir.Expr:
    """``a + b + c`` hangs to the left as deep as it is long: down and up again without recursion."""
    spine = [node]
    while isinstance(spine[-1].left, cst.BinaryOperation):
        spine.append(spine[-1].left)
    result = lower_expr(cx, spine[-1].left)
    for link in reversed(spine):
        op = BINARY.get(type(link.operator), "?")
        result = ir.Binary(cx.positions.span(link), op, result, lower_expr(cx, link.right))
    return result


def _boolean(cx: Context, node: cst.BooleanOperation) -> ir.Boolean:
    """``a and b and c`` becomes one ``Boolean`` of three operands."""
    kind = type(node.operator)
    operands: list[cst.BaseExpression] = []
    link: cst.BaseExpression = node
    while isinstance(link, cst.BooleanOperation) and type(link.operator) is kind:
        operands.append(link.right)
        link = link.left
    operands.append(link)
    op = "and" if kind is cst.And else "or"
    lowered = tuple(lower_expr(cx, operand) for operand in reversed(operands))
    return ir.Boolean(cx.positions.span(node), op, lowered)


def _comparison(cx: Context, node: cst.Comparison) -> ir.Expr:
    """``a < b < c`` is ``a < b and b < c``."""
    span = cx.positions.span(node)
    left, left_node = lower_expr(cx, node.left), node.left
    links: list[ir.Compare] = []
    for target in node.comparisons:
        right = lower_expr(cx, target.comparator)
        whole = span if len(node.comparisons) == 1 else cx.positions.between(left_node, target.comparator)
        links.append(ir.Compare(whole, COMPARISON.get(type(target.operator), "?"), left, right))
        left, left_node = right, target.comparator
    return links[0] if len(links) == 1 else ir.Boolean(span, "and", tuple(links))


def _comprehension(
    cx: Context,
    node: cst.BaseComp,
    kind: str,
    element: cst.BaseExpression,
    key: cst.BaseExpression | None = None,
) -> ir.Comprehension:
    clauses: list[ir.Generator] = []
    clause: cst.CompFor | None = node.for_in
    while clause is not None:
        tests = tuple(lower_expr(cx, test.test) for test in clause.ifs)
        clauses.append(ir.Generator(lower_expr(cx, clause.target), lower_expr(cx, clause.iter), tests))
        clause = clause.inner_for_in
    lowered_key = None if key is None else lower_expr(cx, key)
    return ir.Comprehension(
        cx.positions.span(node), kind, lower_expr(cx, element), tuple(clauses), lowered_key
    )


def _yield(cx: Context, node: cst.Yield) -> ir.Yield:
    cx.scope.yields = True
    span = cx.positions.span(node)
    match node.value:
        case cst.From(item=item):
            return ir.Yield(span, lower_expr(cx, item), delegate=True)
        case None:
            return ir.Yield(span, None)
        case value:
            return ir.Yield(span, lower_expr(cx, value))


def _lambda(cx: Context, node: cst.Lambda) -> ir.Lambda:
    span = cx.positions.span(node)
    qualname = f"{cx.scope.prefix}<lambda>"
    params = lower_params(cx, node.params)
    with cx.function(qualname) as scope:
        body = (ir.Return(cx.positions.span(node.body), lower_expr(cx, node.body)),)
    return ir.Lambda(
        span,
        ir.Function("<lambda>", qualname, cx.source.module, span, params, body, is_generator=scope.yields),
    )


def lower_params(cx: Context, node: cst.Parameters) -> tuple[ir.Param, ...]:
    """Parameters in the order in which they are written; a bare ``*`` and ``/`` leave none."""
    params = [_param(cx, param, "positional") for param in (*node.posonly_params, *node.params)]
    if isinstance(node.star_arg, cst.Param):
        params.append(_param(cx, node.star_arg, "*"))
    params.extend(_param(cx, param, "keyword") for param in node.kwonly_params)
    if node.star_kwarg is not None:
        params.append(_param(cx, node.star_kwarg, "**"))
    return tuple(params)


def _param(cx: Context, node: cst.Param, kind: str) -> ir.Param:
    default = None if node.default is None else lower_expr(cx, node.default)
    annotation = None if node.annotation is None else lower_expr(cx, node.annotation.annotation)
    return ir.Param(node.name.value, kind, default, annotation)
