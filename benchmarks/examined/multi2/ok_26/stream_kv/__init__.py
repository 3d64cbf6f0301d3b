from .ring import HostKV, RingKV
from .options import Options

__all__ = ["HostKV", "RingKV", "Options"]
