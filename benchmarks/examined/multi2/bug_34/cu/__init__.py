from .check import ok
from .arena import Arena
from .lane import Lane

__all__ = ["ok", "Arena", "Lane"]
