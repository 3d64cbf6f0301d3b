"""Which tensors have one form: what made them, and what was told of their sizes.

What a path knows of it is in ``interp/state/forms.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import elements, symbols
from streamlint.interp.state.values import BufferV, ConstV, SymV, Value, symbol_of
from streamlint.trace import WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


def made(m: Machine, result: Value, name: str, args: Sequence[Value]) -> Value:
    """Notes what has made a tensor: a factory, or an operator whose result has a size that operands tell."""
    if isinstance(result, BufferV):
        call = symbols.call(name, *(_of(m, value) for value in args))
        first = m.forms.first.setdefault(call, result.id)
        if first != result.id:
            m.forms.like[result.id] = first
    return result


def sized(m: Machine, made: BufferV, sizes: Sequence[Value]) -> None:
    """Notes the size that a factory is told, if it is one number."""
    match sizes:
        case [ConstV(int()) | SymV() as only]:
            m.forms.lengths[made.id] = only
        case _:
            pass


def length(m: Machine, view: BufferV) -> Value | None:
    """``x.numel()``, ``x.size(0)`` of what was made by ``torch.empty(n)``: ``n``."""
    return m.forms.lengths.get(view.id) if view.region == WHOLE else None


def viewed(m: Machine, view: BufferV, way: str) -> None:
    """Code takes a view of another shape: ``x.t()``, ``x.view(2, -1)``."""
    known = m.forms.reshaped.get(view.id, ())
    if way not in known:
        m.forms.reshaped[view.id] = (*known, way)


def symbol(m: Machine, view: BufferV) -> Symbol:
    """Whose shape and type a tensor has: equal for two that are known to have the same."""
    return symbol_of(BufferV(m.forms.like.get(view.id, view.id), view.region, view.flavor))


def _of(m: Machine, value: Value) -> Symbol:
    if isinstance(value, BufferV):
        views = map(symbols.Name, m.forms.reshaped.get(value.id, ()))
        return symbols.Tuple((symbol(m, value), *views))
    items = elements.listed(m, value)
    return symbol_of(value) if items is None else symbols.Tuple(tuple(_of(m, item) for item in items))
