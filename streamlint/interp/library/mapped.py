"""Page-locked memory of the host that kernels use in place, when their stream comes to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.models.schema import Lib
from streamlint.trace import Space

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import BufferV
    from streamlint.trace import BufferId

_BY_ADDRESS = frozenset(lib.product for lib in (Lib.PYCUDA, Lib.DRIVER, Lib.RUNTIME, Lib.CORE))
_OF_ARRAYS = frozenset((Lib.CUPY.product, Lib.NUMBA.product))


def note(m: Machine, view: BufferV) -> BufferV:
    """An array of CuPy's at an address, which may be one of page-locked memory; a mapped one of Numba's."""
    m.life.mapped.add(view.id)
    return view


def works_in_place(m: Machine, number: BufferId, library: str) -> bool:
    """Whether kernels of a library use memory of the host in place: page-locked memory, if it is mapped.

    Kernels that are given addresses are given those: ``mix(rows, page.base.get_device_pointer(), ...)``.
    """
    if m.buffers[number].space is not Space.PINNED:
        return False
    return library in _BY_ADDRESS or (number in m.life.mapped and library in _OF_ARRAYS)
