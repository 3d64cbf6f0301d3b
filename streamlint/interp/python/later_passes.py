"""Tests that answer otherwise in a later pass than in those that are run: ``if (step + 1) % 10 == 0:``.

Of a loop of a thousand passes a few are run, with the numbers 0, 1 and 2. What is done every ten times is
done on another path, where it is asked for the second time: as if the passes in between had not been. That
keeps the slots of rings in turn. Not what begins or ends with a pass (``step >= slots``, ``step == last``):
that rests on all those before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import arms
from streamlint.interp.state.numbers import Counted
from streamlint.interp.state.values import ConstV

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine

MANY = 1 << 30
"""Passes that a loop of unknown length may make."""
_SEEN = 3
"""Each residue of so small a number has a pass of its own among those that are run."""


def answer(m: Machine, e: ir.Expr, *, known: bool, label: str) -> bool:
    """The answer of a test whose numbers are known, or on another path that of a later pass."""
    if not m.ahead or not (m.frame.touches and not m.constructing):
        return known
    asked = _remainder(m, e)
    if asked is None:
        return known
    number, modulus, wanted = asked
    before = m.numbers.rounds.get(e.span)
    m.numbers.rounds[e.span] = Counted(number, known, later=before is not None and before.later)
    if before is None or before.later or before.answer != known or modulus <= _SEEN:
        return known
    step = number - before.number
    later = range(number + step, number + step * (min(m.ahead, modulus) + 1), step) if step > 0 else ()
    if all((each % modulus == wanted) == (number % modulus == wanted) for each in later):
        return known
    m.numbers.rounds[e.span] = Counted(number, known, later=True)
    tested = m.frame.tested
    tells = tested is not None and arms.tell(m.project, m.frame.env.module, tested)
    key, usual = m.fresh("a later pass", e.span).symbol, int(not known)
    return m.oracle.choose(key, label, default=usual, known=usual, tells=tells) == 0


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
