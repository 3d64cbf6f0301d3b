"""Whether memory has no gaps: what ``x.is_contiguous()`` says, where it is known.

``x if x.is_contiguous() else x.contiguous()`` copies nothing of what ``torch.rand(n)`` gave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import axes, dtypes, forms
from streamlint.interp.state import symbols
from streamlint.interp.state.values import ApiV, BufferV, ConstV, Value, symbol_of, told
from streamlint.models import torch as model
from streamlint.models.operands import CONVERTS_TO, FILLS_GAPS, MAY_RETURN_OPERAND
from streamlint.trace import UNBOUNDED, Interval, SymbolSlice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from streamlint.interp.state.machine import Machine
    from streamlint.trace import Region, Selector

QUESTION = "is_contiguous"
_NO = 1


def made(m: Machine, view: BufferV, name: str, options: Collection[str]) -> BufferV:
    """A factory, or ``contiguous()``, has made memory without gaps."""
    if "memory_format" not in options and not name.endswith(model.LAID_OUT_AS_OTHERS):
        m.forms.dense.add(view.id)
    return view


def viewed(m: Machine, view: BufferV, name: str, sizes: Iterable[Value] = ()) -> BufferV:
    """Another view of the whole, ``x.t()``: which of them is asked is not told apart."""
    if name not in model.KEEPS_LAYOUT:
        m.forms.dense.discard(view.id)
    if name not in model.KEEPS_FORM:
        m.life.viewed.add(view.id)
        forms.viewed(m, view, f"{name}({', '.join(map(told, sizes))})")
    if name == "view" and any(isinstance(size, ApiV) for size in sizes):
        # page.view(torch.float16): of which type the memory is, is not known any more.
        m.forms.dtypes.pop(view.id, None)
    if name in model.TRANSPOSES:
        m.forms.turned.add(view.id)
    return axes.viewed(m, view, name, list(sizes))


def may_return_operand(m: Machine, view: BufferV, name: str) -> bool:
    """Whether an operator may give back its operand: ``x.contiguous()``, not ``x.t().contiguous()``.

    Nor does ``(x > 0).float()``, whose operand holds truth values.
    """
    if name not in MAY_RETURN_OPERAND:
        return False
    if name in FILLS_GAPS:
        return not has_gaps(m, view)
    return not dtypes.is_other(m, view, CONVERTS_TO.get(name))


def has_gaps(m: Machine, view: BufferV) -> bool:
    """Whether a view is known not to be one piece of memory, in the order of its elements."""
    asked = symbols.Call(symbols.Attr(symbol_of(view), QUESTION), ())
    return view.id in m.forms.turned or _leaves_out(view.region) or m.oracle.memo.get(asked) == _NO


def _leaves_out(region: Region) -> bool:
    """Whether a part of each of several rows is left out: ``x[:, :n]``, and not ``x[k, :n]``."""
    several = [at for at, part in enumerate(region) if _is_several(part)]
    return bool(several) and any(part not in _ALL for part in region[several[0] + 1 :])


def _is_several(part: Selector) -> bool:
    match part:
        case Interval(lo, hi):
            return hi - lo != 1
        case _:
            return isinstance(part, SymbolSlice)


_ALL = (Interval(0, UNBOUNDED), SymbolSlice(None, None))


def answer(m: Machine, view: BufferV, options: Collection[object]) -> ConstV | None:
    return ConstV(True) if view.id in m.forms.dense and not view.region and not options else None
