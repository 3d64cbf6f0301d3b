from .engine import DenoiseEngine
from .schedule import Schedule
