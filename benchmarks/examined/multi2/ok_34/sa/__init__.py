from .rt import Queue, call
from .pool import Pool
from .scope import Scope

__all__ = ["Queue", "Pool", "Scope", "call"]
