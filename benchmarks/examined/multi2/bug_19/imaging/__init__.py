from .filters import Denoiser
from .lanes import Lane, make_lanes
from .memory import scratch

__all__ = ["Denoiser", "Lane", "make_lanes", "scratch"]
