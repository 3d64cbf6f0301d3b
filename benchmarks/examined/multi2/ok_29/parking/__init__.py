from .lot import Lot
from .valet import Valet

__all__ = ["Lot", "Valet"]
