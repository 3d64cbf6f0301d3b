"""Tables of what is free, by its size: ``self.free[page.numel()].append(page)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.python import keys
from streamlint.interp.state import symbols
from streamlint.interp.state.values import HeapV, Shape
from streamlint.models.host import ARRAY_META
from streamlint.models.torch import FORM

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import HeapObject, Value

_SIZES = FORM | ARRAY_META


def standing(m: Machine, held: HeapObject, sought: Symbol) -> Symbol:
    """The key that is asked for, or the size at which something lies ready: sizes are mostly the same.

    ``pages = self.free[row.numel()]``, then ``pages.pop() if pages else torch.empty(...)``, of one row after
    the other. That it is another size is explored first.
    """
    if held.kind != "defaultdict" or sought in held.entries or sought in held.extra:
        return sought
    for key, kept in (*held.entries.items(), *held.extra.items()):
        sizes = _is_size(sought) or _is_size(key)
        if not sizes or not _lies_ready(m, kept) or keys.are_two(m, sought, key):
            continue
        question = symbols.Compare("==", sought, key)
        if m.oracle.choose(question, f"{symbols.text_of(sought)} is a key", default=1, relevant=False) == 0:
            held.extra[sought] = kept
            return sought
    return sought


def _is_size(key: Symbol) -> bool:
    waiting, seen = [key], {key}
    while waiting:
        part = waiting.pop()
        if isinstance(part, symbols.Attr) and part.name in _SIZES:
            return True
        if symbols.has(part, symbols.Attr):
            inside = [one for one in symbols.parts(part) if one not in seen]
            seen.update(inside)
            waiting += inside
    return False


def _lies_ready(m: Machine, kept: Value) -> bool:
    """Whether it is a list in which something is."""
    return isinstance(kept, HeapV) and m.heap[kept.id].shape is Shape.LIST and bool(m.heap[kept.id].items)
