"""Whether code around what runs may have chosen a default device: what names none is made there then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import kinds
from streamlint.interp.state import at_work
from streamlint.interp.state.kept import Kept
from streamlint.models import torch as model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project

_SETS = model.SET_DEFAULT_DEVICE.rpartition(".")[2]
_ENTERS = model.DEVICE.rpartition(".")[2]
_INSIDE: Kept[ir.Module, frozenset[str]] = Kept()


def may_be_chosen(m: Machine) -> bool:
    """Whether the module at work sets one somewhere, or a caller of what runs does so by a block.

    ``with torch.device("cuda"): self.warm_up(); self.capture()``, and ``capture`` makes its buffers.
    """
    return _SETS in at_work.words(m) or any(
        frame.function.rpartition(".")[2] in _inside(m.project, frame.env.module) for frame in m.frames
    )


def _inside(project: Project, name: str) -> frozenset[str]:
    """The functions that blocks of a module with a default device call, and what those call."""
    module = project.module(name)
    if module is None:
        return frozenset()
    return project.once(_INSIDE, module, lambda: _reached(module, set(_called_in_blocks(project, module))))


def _called_in_blocks(project: Project, module: ir.Module) -> Iterator[str]:
    entering = (decl for decl in ir.all_functions(module) if _ENTERS in decl.called)
    for function in filter(None, map(ir.code_of, entering)):
        for block in ir.walk(function.body):
            if isinstance(block, ir.With) and any(_is_device(project, module, item) for item in block.items):
                yield from (ir.called(node) for node in ir.walk(block.body) if isinstance(node, ir.Call))


def _is_device(project: Project, module: ir.Module, item: ir.WithItem) -> bool:
    match item.context:
        case ir.Call(func=func):
            return kinds.dotted(project, module.name, func) == model.DEVICE
        case _:
            return False


def _reached(module: ir.Module, names: set[str]) -> frozenset[str]:
    while more := {n for decl in ir.all_functions(module) if decl.name in names for n in decl.called} - names:
        names |= more
    return frozenset(names)
