from .cache import ExpertCache
from .config import MoEConfig
from .layer import SparseBlock
from .prefetch import Speculator

__all__ = ["ExpertCache", "MoEConfig", "SparseBlock", "Speculator"]
