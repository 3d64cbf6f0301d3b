from .grid import Grid
from .recorder import Recorder
from .solver import Solver

__all__ = ["Grid", "Recorder", "Solver"]
