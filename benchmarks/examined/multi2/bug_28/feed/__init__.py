from .ahead import Ahead
from .batch import Batch, collate

__all__ = ["Ahead", "Batch", "collate"]
