from .registry import GraphRegistry
from .dispatch import Dispatcher

__all__ = ["Dispatcher", "GraphRegistry"]
