"""Tests that answer otherwise in a later pass than in those that are run: ``if (step + 1) % 10 == 0:``.

Of a loop of a thousand passes a few are run, with the numbers 0, 1 and 2. What is done every ten times is
done on another path, where it is asked for the second time: as if the passes in between had not been. That
keeps the slots of rings in turn. Not what begins or ends with a pass (``step >= slots``, ``step == last``):
that rests on all those before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.state.numbers import Counted
from streamlint.interp.state.values import ConstV

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine

MANY = 1 << 30
"""Passes that a loop of unknown length may make."""
_SEEN = 3
"""Each residue of so small a number has a pass of its own among those that are run."""


def answers_otherwise(m: Machine, e: ir.Expr, *, known: bool) -> bool:
    """Whether a later pass answers a test otherwise, whose numbers are known; asked once on a path."""
    asked = _remainder(m, e) if m.ahead and m.frame.touches and not m.constructing else None
    if asked is None:
        return False
    number, modulus, wanted = asked
    before = m.numbers.rounds.get(e.span)
    is_chosen = before is not None and before.later
    otherwise = (
        before is not None
        and not is_chosen
        and before.answer == known
        and modulus > _SEEN
        and any(
            (each % modulus == wanted) != (number % modulus == wanted)
            for each in _later(number, number - before.number, min(m.ahead, modulus))
        )
    )
    m.numbers.rounds[e.span] = Counted(number, known, later=is_chosen or otherwise)
    return otherwise


def _later(number: int, step: int, passes: int) -> range:
    """The numbers of the passes to come, if they count up."""
    return range(number + step, number + step * (passes + 1), step) if step > 0 else range(0)


def _remainder(m: Machine, e: ir.Expr) -> tuple[int, int, int] | None:
    """A number, by what it is divided, and the rest that is asked for: of ``step % 10 == 9``."""
    match e:
        case ir.Compare(
            op="==" | "!=",
            left=ir.Binary(op="%", left=left, right=right),
            right=ir.Const(value=int() as wanted),
        ):
            pass
        case ir.Binary(op="%", left=left, right=right):
            wanted = 0
        case _:
            return None
    if not (_is_plain(left) and _is_plain(right)):
        return None
    match m.python.evaluate(m, left), m.python.evaluate(m, right):
        case ConstV(int() as number), ConstV(int() as modulus) if modulus > 0:
            return number, modulus, wanted
        case _:
            return None


def _is_plain(e: ir.Expr) -> bool:
    """Whether a part can be looked at once more, and nothing else is done by that."""
    match e:
        case ir.Name() | ir.Const():
            return True
        case ir.Attr(value=of):
            return _is_plain(of)
        case ir.Binary(left=left, right=right):
            return _is_plain(left) and _is_plain(right)
        case _:
            return False
