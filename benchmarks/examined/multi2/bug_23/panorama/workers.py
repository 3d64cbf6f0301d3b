import threading
from concurrent.futures import ThreadPoolExecutor

import cupy as cp

from .sharpen import sharpen, transfer


class TileWorkers:
    """A few threads; each one works on the device through its own stream."""

    def __init__(self, threads, tile_shape, sigma=2.0, gain=0.8):
        self.local = threading.local()
        self.response = transfer(tile_shape, sigma, gain)
        cp.cuda.Device().synchronize()
        self.executor = ThreadPoolExecutor(threads)

    @property
    def stream(self):
        if not hasattr(self.local, "stream"):
            self.local.stream = cp.cuda.Stream(non_blocking=True)
        return self.local.stream

    def _work(self, job):
        where, pixels = job
        with self.stream:
            tile = cp.asarray(pixels)
            tile = sharpen(tile, self.response)
        return where, tile

    def map(self, jobs):
        return self.executor.map(self._work, jobs)

    def close(self):
        self.executor.shutdown()
