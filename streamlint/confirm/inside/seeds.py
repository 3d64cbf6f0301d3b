"""Random numbers that are the same in each run, unless the program sets a seed of its own.

Runs are compared with each other, and ``torch.randn`` of a program without a seed is another value each
time. Any seed is one that the program may have drawn by itself.
"""

from __future__ import annotations

import random
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
        library: Any = module
        seed = library.manual_seed if module.__name__ == "torch" else library.random.seed
        seed(_SEED)


def begin() -> None:
    """For Python's own random numbers, at the start of the process."""
    random.seed(_SEED)


def seeded(spec: ModuleSpec) -> ModuleSpec:
    """For those of a library, at the end of its import."""
    if spec.name in ("torch", "numpy") and type(spec.loader) is SourceFileLoader and spec.origin:
        spec.loader = _Seeding(spec.name, spec.origin)
    return spec
