from .reducer import Reducer as GradientReducer
from .wiring import build

__all__ = ["GradientReducer", "build"]
