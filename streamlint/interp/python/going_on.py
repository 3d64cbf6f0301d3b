"""Functions without whose result nothing is done: ``page = self._next()``, then ``if page is None: return``.

That they give something is the way on. What stands against it in them is explored behind it. So it is that a
generator yields: who walks it does nothing otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamlint.interp.state.frames import Frame


def note(frame: Frame, s: ir.Assign, behind: Iterable[ir.Stmt]) -> None:
    """Keeps the call that a statement takes a value from without which the test behind it ends all."""
    frame.needed = None
    call = _call(s.value) if frame.touches or frame.leads or frame.gives else None
    if call is None:
        return
    after = next((one for one in behind if not isinstance(one, (ir.Assign, ir.Eval))), None)
    match s.targets:
        case [ir.Name(id=name)] if after is not None and _ends_without(after, name):
            frame.needed = call
        case _:
            pass


def hand_on(frame: Frame, value: ir.Expr) -> None:
    """``return self._take(key)`` gives something where the other function does."""
    frame.needed = _call(value) if frame.gives else None


def is_needed(caller: Frame) -> bool:
    """Whether the caller does nothing without what the call that it makes gives."""
    return caller.needed is not None and caller.needed is caller.calling


def first_arm(frame: Frame, s: ir.If) -> bool | None:
    """Whether the arm of a test is run first in a function that is to give something, if it ends that.

    In a generator it is if that arm yields: ``if torch.is_tensor(value): yield name, value``.
    """
    if frame.code is not None and frame.code.is_generator and _yields(s.body) != _yields(s.orelse):
        return _yields(s.body)
    match s.body:
        case [*_, ir.Return(value=None | ir.Const(value=None))] if frame.gives:
            return False
        case [*_, ir.Return()] if frame.gives:
            return True
        case _:
            return None


def _yields(body: tuple[ir.Stmt, ...]) -> bool:
    return any(isinstance(node, ir.Yield) for node in ir.walk(body))


def first_choice(frame: Frame, e: ir.Choice) -> bool | None:
    """The same of ``slots.get(key) if isinstance(slots, dict) else None``."""
    if not frame.gives and (frame.needed is None or frame.needed is not _call(e)):
        return None
    match e:
        case ir.Choice(body=ir.Const(value=None)):
            return False
        case ir.Choice(orelse=ir.Const(value=None)):
            return True
        case _:
            return None


def _call(value: ir.Expr | None) -> ir.Call | None:
    match value:
        case ir.Call():
            return value
        case (
            ir.Choice(body=ir.Const(value=None), orelse=other)
            | ir.Choice(body=other, orelse=ir.Const(value=None))
        ):
            return _call(other)
        case _:
            return None


def _ends_without(s: ir.Stmt, name: str) -> bool:
    """Whether a statement ends what runs, or leaves out all that it has, where a variable is None."""
    match s:
        case ir.If(test=test, body=[*_, ir.Return() | ir.Jump() | ir.Raise()], orelse=()):
            return _asks(test, name, for_none=True)
        case ir.If(test=test, orelse=()) | ir.Assert(test=test):
            return _asks(test, name, for_none=False)
        case _:
            return False


def _asks(test: ir.Expr, name: str, *, for_none: bool) -> bool:
    """Whether a test holds where a variable is None, or holds only where it is not."""
    match test:
        case ir.Boolean(op=op, operands=operands) if op == ("or" if for_none else "and"):
            return any(_asks(one, name, for_none=for_none) for one in operands)
        case ir.Unary(op="not", operand=operand):
            return _asks(operand, name, for_none=not for_none)
        case ir.Compare(op=op, left=ir.Name(id=asked), right=ir.Const(value=None)):
            return asked == name and op == ("is" if for_none else "is not")
        case ir.Name(id=asked):
            return asked == name and not for_none
        case _:
            return False
