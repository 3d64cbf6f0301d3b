"""CUDA's own functions as C has them: what they make is put where their first argument points.

``lib = ctypes.CDLL("libcudart.so")``, then ``lib.cudaMalloc(ctypes.byref(pointer), size)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import models
from streamlint.frozen import replace
from streamlint.interp.library import effects
from streamlint.interp.state import symbols
from streamlint.interp.state.values import BufferV, ConstV, StreamV, TupleV, Value

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span

_VERSION = "_v2"
"""Of functions that came again with other types the library has the second version: ``cuMemAlloc_v2``."""


def call(m: Machine, function: Symbol, args: list[Value], span: Span) -> Value | None:
    """The call's status; None where it is no such function, or does not get what ``byref`` gives."""
    match function, args:
        case symbols.Attr(_, name), [BufferV(number), *rest] if number in m.given:
            row = models.MADE_IN_C.get(name.removesuffix(_VERSION))
        case _:
            return None
    if row is None:
        return None
    match effects.apply(m, *row, None, rest, {}, span):
        case TupleV((_, made, *_)):
            m.roles[m.given[number]] = replace(made, raw=True) if isinstance(made, StreamV) else made
        case _:
            pass
    return _SUCCESS


_SUCCESS = ConstV(0)
