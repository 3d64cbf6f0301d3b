"""Which device a value names, as the text says it: a fact about a plain value, with the space that is meant.

``torch.device("cuda", rank)`` and ``f"cuda:{rank}"`` name a GPU, ``x.device`` names where ``x`` is, and of
``"cuda" if torch.cuda.is_available() else "cpu"`` the GPU is inferred: code that orders streams has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts.kinds import PLAIN, Fact, Kind
from streamlint.models import torch
from streamlint.trace import Evidence, Space

if TYPE_CHECKING:
    from collections.abc import Callable

GPU = Fact(Kind.PLAIN, Evidence.SHOWN, Space.DEVICE, Evidence.SHOWN)
HOST = Fact(Kind.PLAIN, Evidence.SHOWN, Space.PAGEABLE, Evidence.SHOWN)


def of_text(text: str) -> Fact:
    """A text may name a device, as ``"cuda:1"`` does; other texts are texts."""
    kind = text.partition(":")[0]
    return GPU if kind == "cuda" else HOST if kind == "cpu" else PLAIN


def of_constant(e: ir.Expr) -> Fact:
    """A literal; of ``f"cuda:{rank}"`` what stands before its values says enough."""
    match e:
        case ir.Const(value=str() as text):
            return of_text(text)
        case ir.Opaque(texts=(str() as first, *_)) if first.endswith(":"):
            return of_text(first)
        case _:
            return PLAIN


def of_memory(memory: Fact) -> Fact:
    """``x.device``: as sure as it is where ``x`` lives."""
    space = Space.PAGEABLE if memory.space.on_host else memory.space
    return Fact(Kind.PLAIN, Evidence.SHOWN, space, memory.residence)


def of_call(path: str, call: ir.Call, of: Callable[[ir.Expr], Fact]) -> Fact:
    """A call that gives a device; any other gives what nothing is known of but that it is plain."""
    if path in torch.GIVES_GPU:
        return GPU
    if path != "torch.device" or not call.args:
        return PLAIN
    match call.args[0].value:
        case ir.Const(value=int()):
            return GPU
        case inner:
            return of(inner)


def meant(e: ir.Expr, of: Callable[[ir.Expr], Fact]) -> Fact:
    """What stands where a device is taken: a number is the index of a GPU, and None the default."""
    match e:
        case ir.Const(value=None):
            return HOST
        case ir.Const(value=int()):
            return GPU
        case _:
            return of(e)
