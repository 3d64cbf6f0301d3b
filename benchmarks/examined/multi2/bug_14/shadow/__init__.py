from .average import ShadowWeights
from .callback import ShadowCallback
