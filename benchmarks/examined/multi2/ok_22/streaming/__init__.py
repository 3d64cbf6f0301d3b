from .attach import stream_layers
from .slots import WeightSlot
