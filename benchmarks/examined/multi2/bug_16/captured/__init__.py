from .feeder import Feeder
from .runner import StepRunner as Runner

__all__ = ["Feeder", "Runner"]
