"""Random numbers that are the same in each run, unless the program sets a seed of its own.

Runs are compared with each other, and ``torch.randn`` of a program without a seed is another value each
time. Any seed is one that the program may have drawn by itself.
"""

from __future__ import annotations

import random
import sys
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_SEED: Final = 20_000
ENVIRONMENT: Final = {"CUPY_SEED": str(_SEED)}


class _Seeding(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _seed(module)


def _seed(library: Any) -> None:  # noqa: ANN401
    seed = library.manual_seed if library.__name__ == "torch" else library.random.seed
    seed(_SEED)


def begin() -> None:
    """For Python's own random numbers, at the start of the process."""
    random.seed(_SEED)


def again() -> None:
    """For all that is loaded, before each run of a process that makes several: as in a new process."""
    begin()
    for name in ("torch", "numpy"):
        if name in sys.modules:
            _seed(sys.modules[name])
    # CuPy makes its generators at their first use, from the environment.
    if getattr(sys.modules.get("cupy.random._generator"), "_random_states", None):
        _seed(sys.modules["cupy"])


def seeded(spec: ModuleSpec) -> ModuleSpec:
    """For those of a library, at the end of its import."""
    if spec.name in ("torch", "numpy") and type(spec.loader) is SourceFileLoader and spec.origin:
        spec.loader = _Seeding(spec.name, spec.origin)
    return spec
