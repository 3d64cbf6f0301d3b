"""What changes memory where it is: ``x += y``, ``x.add_(y)`` and ``x[i] = y``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import (
    copies,
    mapped,
    tensors,
)
from streamlint.interp.state import flavors, names
from streamlint.interp.state.values import (
    BufferV,
    Flavor,
    Value,
    reading,
)
from streamlint.models import torch as model
from streamlint.trace import (
    Access,
    HostAccess,
    Mode,
    Space,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def operator(m: Machine, target: BufferV, value: Value, op: str, span: Span) -> bool:
    """``x += y`` on memory; false for pointers, where it only moves the address."""
    if target.flavor is Flavor.POINTER:
        return False
    views = tensors.buffers_in(m, [value], unknown=False)
    accesses = (
        Access(target.id, Mode.UPDATE, target.region),
        *(reading(v) for v in views),
    )
    _at_its_place(m, target, accesses, f"{op}=", span)
    return True


def _at_its_place(m: Machine, target: BufferV, accesses: Sequence[Access], name: str, span: Span) -> None:
    """An operator that changes ``target``: on the host for host memory, else on the device.

    ``pinned.add_(x)`` with ``x`` on the device is an error in PyTorch. So code that does it was misread:
    ``target`` is on the device too, and is not what it seems to be.
    """
    aside = mapped.works_in_place(m, target.id, flavors.product(target))
    if aside or not (m.space(target).on_host or target.flavor is Flavor.ARRAY):
        tensors.launch(m, span, accesses, name, flavors.library(m, target))
        return
    on_device = tuple(access for access in accesses if m.buffers[access.buffer].space is Space.DEVICE)
    if target.flavor is Flavor.TORCH and on_device:
        tensors.launch(m, span, on_device, name, flavors.library(m, target))
    else:
        m.emit(HostAccess(m.site(span), m.lane, accesses=tuple(accesses), name=name))


def assign(m: Machine, target: BufferV, value: Value, span: Span, at: Value) -> None:
    """``x[at] = value``"""
    value = names.settle(m, value)
    # table[i] = tensor.data_ptr() stores a number.
    sources = [v for v in tensors.buffers_in(m, [value], unknown=False) if v.flavor is not Flavor.POINTER]
    if (
        sources
        and sources[0].flavor is Flavor.ARRAY
        and m.space(sources[0]).on_host
        and m.space(target) is Space.UNKNOWN
    ):
        # rows[i][:] = x.get(): neither PyTorch nor CuPy takes an array of NumPy's there.
        m.is_host_array(target)
        target = BufferV(target.id, target.region, Flavor.ARRAY)
    if target.flavor in flavors.DEVICE_FLAVORS and sources and m.space(sources[0]).on_host:
        stream = m.current_stream(flavors.library(m, target), m.buffers[target.id].device)
        by = flavors.product(target)
        copies.on_stream(
            m, target, sources[0], stream.id, span, blocking=False, name="copy by assignment", library=by
        )
        return
    if target.flavor is Flavor.ARRAY:
        # page[:] = rows - rows.mean(): NumPy takes nothing but memory of the host, whatever computes it.
        reads = [reading(v) for v in sources if m.space(v).on_host]
        written = Access(target.id, Mode.WRITE, target.region)
        m.emit(HostAccess(m.site(span), m.lane, accesses=(written, *reads), name="element assignment"))
        return
    if sources and sources[0].flavor is not Flavor.ARRAY and m.space(sources[0]) is not m.space(target):
        copies.copy(m, target, sources[0], span, name="copy by assignment")
        return
    accesses = (
        Access(target.id, Mode.WRITE, target.region),
        *(reading(v) for v in sources),
        # So is what tells where rows go, as ``table[rows, lengths] = pages`` does.
        *(reading(v) for v in tensors.buffers_in(m, [at], unknown=False) if v.flavor is not Flavor.POINTER),
    )
    if m.space(target).on_host:
        m.emit(HostAccess(m.site(span), m.lane, accesses=accesses, name="element assignment"))
    elif target.flavor is not Flavor.POINTER:
        tensors.launch(m, span, accesses, "element assignment", flavors.library(m, target))


def method(
    m: Machine, view: BufferV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    sources = tensors.buffers_in(m, [*args, *kwargs.values()])
    accesses = (
        Access(
            view.id,
            Mode.WRITE if name in model.OVERWRITES else Mode.UPDATE,
            view.region,
        ),
        *(reading(s) for s in sources),
    )
    _at_its_place(m, view, accesses, name, span)
    return view
