from .cell import HostCell
from .driver import HostOptimizer

__all__ = ["HostCell", "HostOptimizer"]
