"""Layers of ``torch.nn``: objects that compute what a function of ``torch.nn.functional`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.state.values import ApiV, ConstV, HeapV, SymV, Value
from streamlint.models import torch_layers
from streamlint.models.torch import SEQUENCE

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def made(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> SymV:
    """What a class of ``torch.nn`` makes. Of a layer it is known what it computes; of others it is not."""
    name = path.rpartition(".")[2]
    value = m.result(path, span, (*args, *kwargs.values()))
    m.makers[value.symbol] = path
    if name == "Sequential":
        known = bool(args) and all(isinstance(arg, SymV) and arg.computes for arg in args)
    else:
        known = name in torch_layers.LAYERS and not _may_be_in_place(name, args, kwargs)
    return replace(value, computes=torch_layers.LAYERS.get(name, name)) if known else value


def inherited(m: Machine, module: HeapV) -> str:
    """What an object computes by the ``forward`` of a layer that its class inherits.

    ``class Expert(nn.Sequential)``, ``class Head(nn.Linear)``; empty for objects of other classes.
    """
    cls = m.heap[module.id].cls
    for ancestor in m.project.ancestors(cls)[0] if cls is not None else ():
        for base in ancestor.bases:
            match m.project.named(ancestor.module, base):
                case ApiV(path) if path == SEQUENCE:
                    return path.rpartition(".")[2]
                case ApiV(path) if path.startswith("torch.nn."):
                    name = path.rpartition(".")[2]
                    return "" if name in torch_layers.MAY_BE_IN_PLACE else torch_layers.LAYERS.get(name, "")
                case _:
                    pass
    return ""


def _may_be_in_place(name: str, args: list[Value], kwargs: dict[str, Value]) -> bool:
    """``nn.ReLU(inplace=True)``, or ``nn.ReLU(True)``, changes its operand."""
    asked = args if name in torch_layers.MAY_BE_IN_PLACE else []
    told = [kwargs["inplace"]] if "inplace" in kwargs else asked
    return any(value != ConstV(value=False) for value in told)
