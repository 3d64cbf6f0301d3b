"""Which type the elements of a tensor have, where the code says it: then converting it changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import forms
from streamlint.interp.state import symbols
from streamlint.interp.state.values import ApiV, BufferV, Value
from streamlint.models.operands import DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamlint.interp.state.machine import Machine

DEFAULT = "torch.float32"
"""What factories make that are told no type: https://docs.pytorch.org/docs/stable/generated/torch.get_default_dtype.html"""

_UNEQUAL = 1


def made(m: Machine, view: BufferV, options: Mapping[str, Value]) -> None:
    """A factory was told the type: ``torch.empty(n, dtype=torch.float16)``."""
    told = named(options.get("dtype"))
    if told is not None:
        m.forms.dtypes[view.id] = told


def named(value: Value | None) -> str | None:
    match value:
        case ApiV(path):
            return DTYPES.get(path, path)
        case _:
            return None


def is_same(m: Machine, view: BufferV, wanted: str | None) -> bool:
    """Whether a tensor is of the type that it is to have."""
    return wanted is not None and m.forms.dtypes.get(view.id) == wanted


def is_other(m: Machine, view: BufferV, wanted: str | None) -> bool:
    """Whether a tensor is known to be of another type than ``wanted``, or than one it was compared with."""
    known = "torch.bool" if view.id in m.forms.masks else m.forms.dtypes.get(view.id)
    if known is not None and wanted is not None and known != wanted:
        return True
    asked = symbols.Attr(forms.symbol(m, view), "dtype")
    return any(
        isinstance(key, symbols.Compare) and key.left == asked and answer == _UNEQUAL
        for key, answer in m.oracle.memo.items()
    )
