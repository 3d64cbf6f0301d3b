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
"""What a pool, or an array, has its memory from."""


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


def pool_of(m: Machine, allocator: Value) -> tuple[str, Value] | None:
    """What kind of pool an allocator is of, and which: ``pool.allocate`` of PyCUDA's pools."""
    match names.settle(m, allocator):
        case MethodV(PartialV(ApiV(path)) as pool, name):
            kind = next((effect.pool for effect in _effects(f"{path}.{name}")), None)
            return None if kind is None else (kind, pool)
        case _:
            return None


def _of_row(path: str) -> Space:
    return next((effect.space for effect in _effects(path)), Space.MANAGED)


def _effects(path: str) -> list[Allocates]:
    row = models.find_function(path)
    return [effect for effect in row[1].effects if isinstance(effect, Allocates)] if row is not None else []


def _others_choose(m: Machine) -> bool:
    """Whether other code of the running module chooses one, which may have run before."""
    return not ALLOCATORS.isdisjoint(at_work.words(m))
