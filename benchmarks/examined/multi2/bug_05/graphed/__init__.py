from .batch import BatchStager as Stager
from .runner import GraphedModel, capture_all

__all__ = ["Stager", "GraphedModel", "capture_all"]
