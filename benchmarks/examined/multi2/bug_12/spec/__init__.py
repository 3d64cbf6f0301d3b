from .config import LaneConfig, SpecConfig
from .decoder import SpeculativeDecoder
from .lane import Lane

__all__ = ["Lane", "LaneConfig", "SpecConfig", "SpeculativeDecoder"]
