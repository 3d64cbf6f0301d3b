from .host import PinnedBlocks
from .hooks import attach
from .swapper import BlockSwapper

__all__ = ["PinnedBlocks", "BlockSwapper", "attach"]
