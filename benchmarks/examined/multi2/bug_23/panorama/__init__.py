from .canvas import Canvas
from .workers import TileWorkers

__all__ = ["Canvas", "TileWorkers"]
