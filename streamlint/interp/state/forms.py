"""What is known of the form of tensors: types of elements, gaps, and which of them have one shape.

An operator makes the same form each time it is given the same forms: ``spectrum(x).shape[0]`` of a warm-up is
that of the capture behind it, and what was kept under it is found again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import Value
    from streamlint.trace import BufferId, Selector


@dataclass(slots=True)
class Forms:
    masks: set[BufferId] = field(default_factory=set)
    """Tensors of truth values: indexing with one gathers as many elements as are true."""
    drawn: dict[BufferId, Selector] = field(default_factory=dict)
    """Tensors of random numbers, and below which: as indices they meet what else is named."""
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
    unpinned: set[BufferId] = field(default_factory=set)
    """Memory of the host that was page-locked, and is not any more: ``with cuda.pinned(rows):`` was left."""
    zero: set[Symbol] = field(default_factory=set)
    """Sizes of what was given back ..."""
    positive: set[Symbol] = field(default_factory=set)
    """... and of what was allocated on the path."""
    first: dict[Symbol, BufferId] = field(default_factory=dict)
    """The tensor that a call made first ..."""
    like: dict[BufferId, BufferId] = field(default_factory=dict)
    """... and those that the same call made later, by each of them."""
