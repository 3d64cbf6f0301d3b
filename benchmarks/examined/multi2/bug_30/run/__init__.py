from .snapshot import Snapshotter
from .journal import Journal

__all__ = ["Snapshotter", "Journal"]
