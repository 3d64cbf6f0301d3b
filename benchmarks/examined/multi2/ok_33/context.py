from functools import lru_cache

import numpy as np
import pycuda.driver as drv


@lru_cache(maxsize=None)
def open_stream(role="compute"):
    return drv.Stream()


@lru_cache(maxsize=None)
def workspace(count, dtype="float32"):
    """Device room for partial results, one per size."""
    return drv.mem_alloc(count * np.dtype(dtype).itemsize)


def on_device(array):
    room = drv.mem_alloc(array.nbytes)
    drv.memcpy_htod(room, np.ascontiguousarray(array))
    return room
