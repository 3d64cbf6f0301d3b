"""Modules that were taken for tensors: ``build()`` is unknown, and ``build().cuda()`` may be either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import unresolved
from streamlint.interp.state.values import BufferV, Flavor, Value
from streamlint.models import torch as model
from streamlint.trace import WHOLE

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def is_module(m: Machine, view: BufferV, method: str) -> bool:
    """Whether what was taken for a tensor is a module, as a method shows that only modules have."""
    if method in model.MODULE_METHODS and _may_be(view):
        m.objects.add(view.id)
    return view.id in m.objects


def called(m: Machine, view: BufferV) -> None:
    """``model = build().cuda()``, then ``model(x)``: tensors are not called."""
    if view.flavor is Flavor.TORCH:
        m.objects.add(view.id)


def _may_be(view: BufferV) -> bool:
    """A part of an unresolved result says nothing about the other parts."""
    return view.flavor is Flavor.TORCH or (view.flavor is Flavor.OPAQUE and view.region == WHOLE)


def method(
    m: Machine, view: BufferV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """``module.name(...)``"""
    if name in model.MODULE_RETURNS_SELF:
        return view
    return unresolved.opaque(m, f"{m.buffers[view.id].name or 'module'}.{name}", args, kwargs, span)
