from .stager import Snapshot, Stager
from .writer import Writer

__all__ = ["Snapshot", "Stager", "Writer"]
