from .layered import HostBackedCache
from .attention import CachedAttention

__all__ = ["HostBackedCache", "CachedAttention"]
