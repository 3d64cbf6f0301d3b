from .hooks import SavedOnHost
from .lane import OffloadLane

__all__ = ["OffloadLane", "SavedOnHost"]
