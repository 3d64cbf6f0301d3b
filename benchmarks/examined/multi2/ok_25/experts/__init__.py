from .bank import HostBank
from .pool import SeatPool
from .mixture import Mixture

__all__ = ["HostBank", "SeatPool", "Mixture"]
