from .bucket import Bucket, partition
from .hooks import attach
from .lane import CommLane

__all__ = ["Bucket", "CommLane", "attach", "partition"]
