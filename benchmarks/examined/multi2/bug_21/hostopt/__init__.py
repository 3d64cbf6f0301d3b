from .adam import HostAdam
from .lane import Lane
from .spill import GradSpill
