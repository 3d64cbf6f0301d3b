from . import blur, gradient  # noqa: F401  (they register themselves)
from .base import REGISTRY, Stage, make

__all__ = ["REGISTRY", "Stage", "make"]
