from .cudart import check, rt
from .ring import DeviceRing
from .stages import FrameSource, StripCutter

__all__ = ["DeviceRing", "FrameSource", "StripCutter", "check", "rt"]
