"""Host/device transfer helpers."""
from .down import fence, fetch_async
from .lanes import *

__all__ = ["lane", "LANES", "fetch_async", "fence"]
