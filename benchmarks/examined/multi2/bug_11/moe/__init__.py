from .experts import ExpertBank, ExpertSlot
from .layer import SparseMLP
from .loader import ExpertLoader

__all__ = ["ExpertBank", "ExpertSlot", "ExpertLoader", "SparseMLP"]
