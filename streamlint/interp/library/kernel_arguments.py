"""What a kernel does with its arguments: as its source says, or all that may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import (
    kernel_places,
    kernels,
    kernels_in_cpp,
    tensors,
)
from streamlint.interp.state import flavors, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ConstV,
    Flavor,
    HeapV,
    PartialV,
    Shape,
    SymV,
    TupleV,
    Value,
)
from streamlint.models import members
from streamlint.trace import (
    Access,
    Doubt,
    Mode,
    Space,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.library.call import Call
    from streamlint.interp.state.machine import Machine

OBSERVED = frozenset({Doubt.OBSERVED})
_OPAQUE = frozenset({Doubt.OPAQUE})
_UNSEEN = kernels.Use(Mode.UPDATE)


def source_uses(call: Call, kernel: str, source: str) -> dict[str, kernels.Use] | None:
    """What the kernel's C++ source says about its parameters, where the source is a literal."""
    known = dict(call.bound)
    given = known.get(kernel)
    if isinstance(given, PartialV):
        known |= given.kwargs
    match known.get(source), known.get("name"):
        case ConstV(str() | bytes() as code), ConstV(str() | bytes() as name):
            return kernels_in_cpp.uses(kernels_in_cpp.as_text(code), kernels_in_cpp.as_text(name))
        case _, ConstV(str() | bytes() as name):
            return kernels_in_cpp.uses_by_name(call.m, kernels_in_cpp.as_text(name))
        case _:
            return None


def packed(call: Call, value: Value, uses: dict[str, kernels.Use] | None) -> list[Access]:
    """The accesses of kernel arguments; without the kernel's source all memory is read and written."""
    m = call.m
    accesses: list[Access] = []
    items, addressed = _parameters(m, value)
    known = list(uses.values()) if uses is not None and len(uses) == len(items) else None
    given = dict(zip(uses or (), items, strict=False))
    for position, item in enumerate(items):
        use = known[position] if known is not None else _UNSEEN
        if isinstance(item, HeapV) and m.heap[item.id].shape is Shape.INSTANCE:
            # A record passed by value: the kernel may use what its fields point to.
            held = tensors.buffers_in(m, m.heap[item.id].attrs.values(), unknown=False)
            accesses += [Access(view.id, Mode.UPDATE, view.region, _OPAQUE) for view in held]
            continue
        if use.mode is None:
            continue
        found = _pointed_to(m, tensors.buffers_in(m, [item], unknown=known is not None, depth=4), addressed)
        if not found and isinstance(item, SymV):
            found = _address(call, item)
        parts = (kernel_places.placed(view, use.place, given) for view in found)
        accesses += [Access(part.id, use.mode, part.region) for part in parts]
    return accesses


def _parameters(m: Machine, value: Value) -> tuple[Sequence[Value], bool]:
    """The kernel's parameters one by one, and whether they are given as addresses of host arrays.

    cuda-python takes a tuple of values and one of types, ``((x, n), (None, ctypes.c_int))``, or an array
    of the addresses of arrays that hold the values.
    """
    match value:
        case TupleV((TupleV(values), TupleV(types))) if len(values) == len(types) and all(
            t == NONE or isinstance(t, ApiV) for t in types
        ):
            return values, False
        case TupleV(items):
            return items, False
        case BufferV(number) if number in m.addresses:
            return m.addresses[number], True
        case _:
            return (value,), False


def _pointed_to(m: Machine, views: list[BufferV], addressed: bool) -> list[BufferV]:
    """Host arrays of addresses stand for what they point to; those of numbers are copied at the launch.

    A table of addresses on the device is read too.
    """
    found: list[BufferV] = []
    for view in views:
        if view.id in m.addresses:
            found += _pointed_to(m, tensors.buffers_in(m, m.addresses[view.id], unknown=False), addressed)
            found += [] if m.space(view).on_host else [view]
        elif not addressed or view.flavor is not Flavor.ARRAY or m.space(view) is not Space.PAGEABLE:
            found.append(view)
    return found


def _address(call: Call, item: SymV) -> list[BufferV]:
    match item.symbol:
        case symbols.Attr(base, name) if name in members.ADDRESSES:
            if symbols.is_computed(base) or symbols.is_made(base):
                return []
            flavor = flavors.flavor_of(call.lib, Space.DEVICE)
            return [tensors.as_buffer(call.m, SymV(base), flavor, call.told)]
        case _:
            return []
