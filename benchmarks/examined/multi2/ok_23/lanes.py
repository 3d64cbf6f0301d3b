import functools
import threading

import cupy as cp

_local = threading.local()


def lane():
    """The calling thread's own stream."""
    if not hasattr(_local, "stream"):
        _local.stream = cp.cuda.Stream(non_blocking=True)
    return _local.stream


def on_lane(fn):
    @functools.wraps(fn)
    def inside(*args, **kwargs):
        stream = lane()
        with stream:
            out = fn(*args, **kwargs)
        stream.synchronize()
        return out
    return inside
