"""Which library an array, a buffer or an address belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state.values import BufferV, Flavor
from streamlint.models.schema import Lib
from streamlint.trace import Space

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine

FLAVORS = {
    Lib.CUPY: Flavor.DEVICE_ARRAY,
    Lib.NUMBA: Flavor.NUMBA_ARRAY,
    Lib.CORE: Flavor.CORE_BUFFER,
    Lib.PYCUDA: Flavor.PYCUDA_ARRAY,
    Lib.WARP: Flavor.WARP_ARRAY,
    Lib.RMM: Flavor.RMM_BUFFER,
    Lib.CUDF: Flavor.CUDF_TABLE,
    Lib.OPENCV: Flavor.GPU_MAT,
    Lib.DALI: Flavor.DALI_OUTPUT,
}
DEVICE_FLAVORS = frozenset(FLAVORS.values())


def flavor_of(lib: Lib, space: Space) -> Flavor:
    """How a library's memory presents itself: numpy arrays on the host, its own arrays elsewhere."""
    if lib not in FLAVORS:
        return Flavor.POINTER
    on_host = space.on_host or space is Space.MANAGED
    return Flavor.ARRAY if on_host and lib not in (Lib.CORE, Lib.WARP, Lib.OPENCV) else FLAVORS[lib]


def of_arrays(lib: Lib) -> Flavor:
    """What arrays are of which only the library is known."""
    return FLAVORS.get(lib, Flavor.TORCH)


def library(m: Machine, view: BufferV) -> Lib:
    """The library whose calls ``view`` goes to; an address has no methods, and goes to cuda-python.

    What unresolved code gives is an array of the library whose arrays the module uses.
    """
    if view.flavor is Flavor.OPAQUE:
        return m.project.arrays_of(m.frame.env.module)
    return _LIBRARIES.get(view.flavor, Lib.TORCH)


def product(view: BufferV) -> str:
    """The library whose methods ``view`` has, by name; empty for addresses and unresolved results."""
    known = view.flavor is Flavor.TORCH or view.flavor in DEVICE_FLAVORS
    return _LIBRARIES.get(view.flavor, Lib.TORCH).product if known else ""


_LIBRARIES = {flavor: lib for lib, flavor in FLAVORS.items()} | {Flavor.POINTER: Lib.RUNTIME}
