"""Methods of numpy and ctypes arrays: which of them read or write the host's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp import tensors
from streamlint.interp.values import NONE, BufferV, Flavor, SymV, Value, key_of
from streamlint.models import host
from streamlint.trace import Origin, Space

if TYPE_CHECKING:
    from streamlint.interp.machine import Machine
    from streamlint.source import Span


def method(
    m: Machine, view: BufferV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    if name in host.ARRAY_META:
        return SymV(f"{key_of(view)}.{name}")
    if name in host.ARRAY_VIEWS:
        return view
    if name in host.ARRAY_WRITES:
        tensors.write_on_host(m, view, span, name)
        return NONE
    tensors.read_on_host(m, view, span, f"{name}()")
    out = kwargs.get("out")
    for target in tensors.buffers_in(m, [out] if out is not None else [], unknown=False):
        tensors.write_on_host(m, target, span, name)
    for source in tensors.buffers_in(m, args, unknown=False):
        tensors.read_on_host(m, source, span, f"{name}()")
    return (
        m.new_buffer("", Space.PAGEABLE, Origin.RESULT, Flavor.ARRAY, span)
        if name in ("copy", "astype")
        else m.fresh(name, span)
    )
