from .buckets import BucketedStep
from .sink import HostSink
