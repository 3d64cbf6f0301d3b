"""Numbers and strings."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import libcst as cst

from streamlint import ir

if TYPE_CHECKING:
    from streamlint.source import Span


def lower_number(span: Span, node: cst.Integer | cst.Float | cst.Imaginary) -> ir.Expr:
    """The value of a number; one too long for Python to convert is ``Opaque``."""
    if node.value.isdecimal() and len(node.value) < 19:
        return ir.Const(span, int(node.value))
    return _evaluated(span, node.value, "number")


def lower_string(
    span: Span,
    node: cst.SimpleString | cst.ConcatenatedString | cst.FormattedString,
    operands: tuple[ir.Expr, ...],
) -> ir.Expr:
    """A string or bytes literal, also in several pieces; with an f-string among them it is ``Opaque``."""
    if isinstance(node, cst.FormattedString):
        return ir.Opaque(span, "f-string", operands, _texts(node))
    pieces: list[str] = []
    rest: cst.BaseExpression = node
    while isinstance(rest, cst.ConcatenatedString):
        if not isinstance(rest.left, cst.SimpleString):
            return ir.Opaque(span, "f-string", operands)
        pieces.append(rest.left.value)
        rest = rest.right
    if not isinstance(rest, cst.SimpleString):
        return ir.Opaque(span, "f-string", operands)
    if not pieces and rest.value[0] in "'\"" and "\\" not in rest.value:  # by far the commonest
        return ir.Const(span, rest.raw_value)
    return _evaluated(span, " ".join([*pieces, rest.value]), "string")


def _texts(node: cst.FormattedString) -> tuple[str, ...]:
    """The texts around the values of an f-string; none if a value has a format of its own."""
    texts = [""]
    for part in node.parts:
        match part:
            case cst.FormattedStringText(value=text) if "\\" not in text:
                texts[-1] += text.replace("{{", "{").replace("}}", "}")
            case cst.FormattedStringExpression(conversion=None, format_spec=None, equal=None):
                texts.append("")
            case _:
                return ()
    return tuple(texts)


def _evaluated(span: Span, text: str, why: str) -> ir.Expr:
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return ir.Opaque(span, why)
    assert isinstance(value, (int, float, complex, str, bytes))
    return ir.Const(span, value)
