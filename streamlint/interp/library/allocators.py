"""Where arrays of CuPy get their memory: from an allocator that the program has chosen.

``with cp.cuda.using_allocator(pool.malloc):`` of ``pool = cp.cuda.MemoryPool(cp.cuda.malloc_managed)`` makes
arrays that the host reaches too. What an allocator gives that is not known, the host may reach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import models
from streamlint.interp.state import at_work, names
from streamlint.interp.state.values import NONE, ApiV, Flavor, MethodV, PartialV, Value
from streamlint.models.cupy import ALLOCATORS
from streamlint.models.schema import Allocates
from streamlint.trace import Space

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine

OF_POOL = "allocator"
"""What a pool has its own memory from."""


def place(m: Machine, flavor: Flavor) -> Space:
    """Where the next array is; those of other libraries do not ask CuPy's allocator."""
    if flavor is not Flavor.DEVICE_ARRAY:
        return Space.DEVICE
    if m.allocator == NONE:
        return Space.MANAGED if _others_choose(m) else Space.DEVICE
    return given_by(m, m.allocator)


def given_by(m: Machine, allocator: Value) -> Space:
    """Where an allocator's memory is; ``None`` stands for CuPy's own."""
    match names.settle(m, allocator):
        case value if value == NONE:
            return Space.DEVICE
        case ApiV(path):
            return _of_row(path)
        case MethodV(PartialV(ApiV(path), kwargs=kept), name):
            return given_by(m, kept[OF_POOL]) if OF_POOL in kept else _of_row(f"{path}.{name}")
        case _:
            return Space.MANAGED


def _of_row(path: str) -> Space:
    row = models.find_function(path)
    effects = row[1].effects if row is not None else ()
    return next((effect.space for effect in effects if isinstance(effect, Allocates)), Space.MANAGED)


def _others_choose(m: Machine) -> bool:
    """Whether other code of the running module chooses one, which may have run before."""
    return not ALLOCATORS.isdisjoint(at_work.words(m))
