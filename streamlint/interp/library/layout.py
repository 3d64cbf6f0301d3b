"""Whether memory has no gaps: what ``x.is_contiguous()`` says, where it is known.

``x if x.is_contiguous() else x.contiguous()`` copies nothing of what ``torch.rand(n)`` gave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state.values import BufferV, ConstV

if TYPE_CHECKING:
    from collections.abc import Collection

    from streamlint.interp.state.machine import Machine

QUESTION = "is_contiguous"
_LIKE_OTHERS = ("_like", "empty_strided", "empty_permuted")
"""How names of factories end that lay out what they make as something else is laid out."""
_KEEPS = frozenset("data view view_as detach detach_ unsqueeze squeeze flatten ravel requires_grad_".split())
"""Views of all elements in their order."""


def made(m: Machine, view: BufferV, name: str, options: Collection[str]) -> BufferV:
    """A factory, or ``contiguous()``, has made memory without gaps."""
    if "memory_format" not in options and not name.endswith(_LIKE_OTHERS):
        m.dense.add(view.id)
    return view


def viewed(m: Machine, view: BufferV, name: str) -> BufferV:
    """Another view of the whole, ``x.t()``: which of them is asked is not told apart."""
    if name not in _KEEPS:
        m.dense.discard(view.id)
    return view


def answer(m: Machine, view: BufferV, options: Collection[object]) -> ConstV | None:
    return ConstV(True) if view.id in m.dense and not view.region and not options else None
