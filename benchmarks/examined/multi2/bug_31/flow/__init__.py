from .graph import Flow
from .stage import REGISTRY, Stage, register
from . import spectral, spatial  # noqa: F401  (fill the registry)

__all__ = ["Flow", "REGISTRY", "Stage", "register"]
