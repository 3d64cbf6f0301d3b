from .pool import BlockPool, OutOfBlocks
from .swapper import Swapper, Ticket

__all__ = ["BlockPool", "OutOfBlocks", "Swapper", "Ticket"]
