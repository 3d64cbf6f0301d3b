"""What autograd computes gradients for, and so keeps until a backward pass has run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import Flavor
from streamlint.models.autograd import BACKWARD, MAKES_PARAMETERS
from streamlint.models.torch import GRADIENTS_OFF
from streamlint.trace import Copy, Doubt, HostAccess, Launch, Mode, Role

if TYPE_CHECKING:
    from streamlint import ir
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


_NONE: Kept[str, bool] = Kept()


def needs_none(m: Machine) -> bool:
    """Whether the module at work makes no tensor that needs a gradient: ``w.requires_grad = True``."""
    name = m.frame.env.module
    return m.project.once(_NONE, name, lambda: MAKES_PARAMETERS.isdisjoint(words_at_work(m)))


def are_off(m: Machine) -> bool:
    """Whether the module at work switches gradients off somewhere and never runs a backward pass."""
    decls = _functions_at_work(m)
    off = any(
        not GRADIENTS_OFF.isdisjoint(decl.names)
        or any(d.rpartition(".")[2] in GRADIENTS_OFF for d in decl.decorators)
        for decl in decls
    )
    return off and not any(BACKWARD in decl.names for decl in decls)


def _functions_at_work(m: Machine) -> list[ir.FunctionDecl]:
    """All functions and methods of the module whose code runs."""
    module = m.project.module(m.frame.env.module)
    if module is None:
        return []
    methods = (decl for cls in module.classes.values() for decl in cls.methods.values())
    return [*module.functions.values(), *methods]


def words_at_work(m: Machine) -> frozenset[str]:
    module = m.project.module(m.frame.env.module)
    at_top = module.body_names if module is not None else frozenset()
    return at_top.union(*(decl.names for decl in _functions_at_work(m)))
