"""Functions that do nothing but say what something is: ``return isinstance(x, Quantized)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir

if TYPE_CHECKING:
    from collections.abc import Sequence


def only_asks(function: ir.Function) -> bool:
    """Whether a function asks for kinds and returns the answer: whatever its branches, it does no work.

    ``if not is_quantizer_available(): return False``, and then ``return isinstance(x, Quantized)``.
    """
    return _only_ask(function.body)


def _only_ask(body: Sequence[ir.Stmt]) -> bool:
    return all(map(_asks, body))


def _asks(statement: ir.Stmt) -> bool:
    match statement:
        case ir.Import() | ir.Eval(value=ir.Const()):
            return True
        case ir.If(body=body, orelse=orelse):
            return _only_ask(body) and _only_ask(orelse)
        case ir.Return(value=value):
            return value is not None and _is_answer(value)
        case _:
            return False


def _is_answer(value: ir.Expr) -> bool:
    match value:
        case ir.Const(value=bool()) | ir.Call(func=ir.Name(id=("isinstance" | "issubclass" | "hasattr"))):
            return True
        case ir.Unary(op="not", operand=operand):
            return _is_answer(operand)
        case ir.Boolean(operands=operands):
            return all(map(_is_answer, operands))
        case ir.Compare(op=op):
            return op in ("is", "is not")
        case _:
            return False
