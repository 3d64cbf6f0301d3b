from .plane import Plane
from .store import Store
from .streams import Rota

__all__ = ["Plane", "Store", "Rota"]
