from .lookahead import Lookahead
from .samples import Sample, stream_of

__all__ = ["Lookahead", "Sample", "stream_of"]
