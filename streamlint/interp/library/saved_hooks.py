"""Hooks of saved tensors: what an operator keeps for the backward pass goes through them and comes back.

``with saved_tensors_hooks(pack, unpack): loss = model(x)``, then ``loss.backward()``
(https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.graph.saved_tensors_hooks).
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING

from streamlint.interp.state import lifetime
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.put_off import Saved
from streamlint.interp.state.values import Flavor, FuncV, HeapV, PartialV, Shape, Value
from streamlint.models.autograd import SAVED_TENSORS_HOOKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint import ir
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import BufferV
    from streamlint.source import Span

MOST_SAVED = Most(4, "saved tensors of a block")
"""Tensors of one block that are followed into its hooks."""
_PACK, _UNPACK = "pack_hook", "unpack_hook"


def made(m: Machine, args: Sequence[Value]) -> HeapV:
    """``saved_tensors_hooks(pack, unpack)``"""
    value = m.new_object(Shape.INSTANCE)
    keep(m, value, args)
    return value


def inherited(m: Machine, cls: ir.ClassDecl, receiver: Value, args: Sequence[Value]) -> None:
    """``super().__init__(self.pack, self.unpack)`` of a class derived from it."""
    order, _ = m.project.ancestors(cls)
    last = SAVED_TENSORS_HOOKS.rpartition(".")[2]
    if isinstance(receiver, HeapV) and any(
        base.rpartition(".")[2] == last for one in order for base in one.bases
    ):
        keep(m, receiver, args)


def keep(m: Machine, value: HeapV, args: Sequence[Value]) -> None:
    match args:
        case [FuncV() | PartialV() as pack, FuncV() | PartialV() as unpack]:
            m.heap[value.id].attrs.update({_PACK: pack, _UNPACK: unpack})
        case _:
            pass


@contextmanager
def entered(m: Machine, value: Value) -> Iterator[None]:
    """Runs a block of ``with``: with the hooks, if the value has some."""
    attrs = m.heap[value.id].attrs if isinstance(value, HeapV) else {}
    outer = m.saving
    if _PACK in attrs:
        m.saving = (attrs[_PACK], attrs[_UNPACK])
    try:
        yield
    finally:
        m.saving = outer


def saves(m: Machine, operands: Sequence[BufferV], span: Span) -> None:
    """An operator was queued: its operands go through the hook. What the hook does is not saved."""
    if m.saving is None or m.frame.gradless:
        return
    (pack, unpack), m.saving = m.saving, None
    operator = len(m.ops)
    try:
        for view in operands:
            tensor = view.flavor in (Flavor.TORCH, Flavor.OPAQUE)
            known = any(view.id == one.buffer for one in m.saved)
            if not tensor or m.space(view).on_host:
                continue
            if not known and m.project.budgets.allows(MOST_SAVED, len(m.saved) + 1):
                packed = m.python.call(m, pack, [view], {}, span)
                m.saved.append(Saved(view.id, unpack, packed, operator))
                known = True
            if known:
                # What the hook has given is kept instead of it.
                lifetime.is_not_saved(m, view.id, span)
    finally:
        m.saving = (pack, unpack)


def in_turn(m: Machine) -> list[list[Saved]]:
    """What the backward pass asks for: those of one operator together, of the last operator first."""
    taken, m.saved = m.saved[::-1], []
    return [list(of_one) for _, of_one in groupby(taken, key=lambda one: one.operator)]
