"""Lists that are parted: ``[k for k in keys if k in index]``, and ``[k for k in keys if k not in index]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.interp.state.values import SymV

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import Value


def takes(m: Machine, asked: Sequence[Value]) -> None:
    """A comprehension takes the element that stands for all, of which it has asked what is not known."""
    m.parted.update(_questions(asked))


def has_gone_elsewhere(m: Machine, asked: Sequence[Value]) -> bool:
    """Whether another comprehension has taken the same element by the opposite of what this one asks."""
    return any((key, not negated) in m.parted for key, negated in _questions(asked))


def _questions(asked: Sequence[Value]) -> Iterator[tuple[Symbol, bool]]:
    return (symbols.question(value.symbol) for value in asked if isinstance(value, SymV))
