"""What autograd computes gradients for, and so keeps until a backward pass has run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.state import at_work
from streamlint.interp.state.values import Flavor
from streamlint.models.autograd import BACKWARD, MAKES_PARAMETERS
from streamlint.models.torch import GRADIENTS_OFF
from streamlint.trace import Copy, Doubt, HostAccess, Launch, Mode, Role

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine

DIFFERENTIABLE = (Flavor.TORCH, Flavor.OPAQUE)


def note(m: Machine, op: Launch | Copy | HostAccess, number: int) -> bool:
    """Whether autograd computes no gradients through an op, which then makes memory that needs none.

    ``(batch * scale).sum()`` of what was made by ``torch.full``: nothing is saved for a backward pass.
    """
    life = m.life
    plain = (
        op.role is Role.CODE
        and Doubt.OPAQUE not in op.doubts
        and number not in life.by_layers
        and all(
            a.buffer in life.plain or life.flavors.get(a.buffer, Flavor.TORCH) not in DIFFERENTIABLE
            for a in op.accesses
            if a.mode is not Mode.WRITE
        )
    )
    for access in op.accesses:
        if not access.mode.writes:
            continue
        if not plain:
            life.plain.discard(access.buffer)
        elif access.mode is Mode.WRITE and not access.region:
            life.plain.add(access.buffer)
    return plain


def needs_none(m: Machine) -> bool:
    """Whether the module at work makes no tensor that needs a gradient: ``w.requires_grad = True``."""
    return MAKES_PARAMETERS.isdisjoint(at_work.words(m))


def are_off(m: Machine) -> bool:
    """Whether the module at work switches gradients off somewhere and never runs a backward pass."""
    module = at_work.module(m)
    decls = list(ir.all_functions(module)) if module is not None else []
    off = any(not GRADIENTS_OFF.isdisjoint(decl.names) or is_gradless(decl) for decl in decls)
    return off and not any(BACKWARD in decl.names for decl in decls)


def is_gradless(function: ir.FunctionDecl | ir.Function) -> bool:
    """``@torch.no_grad()``: no operand in it is kept for a backward pass."""
    return not GRADIENTS_OFF.isdisjoint(ir.decorated_by(function))
