"""What is known of the form of tensors: types of elements, gaps, and which of them have one shape.

An operator makes the same form each time it is given the same forms: ``spectrum(x).shape[0]`` of a warm-up is
that of the capture behind it, and what was kept under it is found again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.interp.state import elements, symbols
from streamlint.interp.state.values import BufferV, ConstV, SymV, Value, symbol_of
from streamlint.trace import WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.trace import BufferId


@dataclass(slots=True)
class Forms:
    masks: set[BufferId] = field(default_factory=set)
    """Tensors of truth values: indexing with one gathers as many elements as are true."""
    tensors: set[Symbol] = field(default_factory=set)
    """Unknown values that were passed for a parameter which is annotated as a tensor."""
    dense: set[BufferId] = field(default_factory=set)
    """Tensors without gaps: see ``interp/library/layout.py``."""
    turned: set[BufferId] = field(default_factory=set)
    """Tensors of which code has taken a transposed view."""
    reshaped: dict[BufferId, tuple[str, ...]] = field(default_factory=dict)
    """The ways in which code has taken views of another shape, ``x.t()``: which of them is meant is not told
    apart, so all of them tell what is computed of ``x``."""
    dtypes: dict[BufferId, str] = field(default_factory=dict)
    """The types of elements, where a factory was told one."""
    lengths: dict[BufferId, Value] = field(default_factory=dict)
    """How many elements tensors have, where a factory was told one number: ``torch.empty(nbytes)``."""
    emptied: set[BufferId] = field(default_factory=set)
    """Tensors whose memory was given back: ``x.untyped_storage().resize_(0)``."""
    zero: set[Symbol] = field(default_factory=set)
    """Sizes of what was given back ..."""
    positive: set[Symbol] = field(default_factory=set)
    """... and of what was allocated on the path."""
    first: dict[Symbol, BufferId] = field(default_factory=dict)
    """The tensor that a call made first ..."""
    like: dict[BufferId, BufferId] = field(default_factory=dict)
    """... and those that the same call made later, by each of them."""


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
