from .bridge import TorchBridge
from .dsp import MelBank
from .service import Service

__all__ = ["TorchBridge", "MelBank", "Service"]
