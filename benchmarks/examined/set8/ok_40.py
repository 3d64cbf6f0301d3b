import queue

import cupy as cp
import cupyx
import numpy as np


class PinnedBuffers:

    def __init__(self, count, n, dtype=np.float32):
        self._free = queue.Queue()
        for _ in range(count):
            self._free.put(cupyx.empty_pinned(n, dtype=dtype))

    def acquire(self):
        return self._free.get()

    def release(self, buf):
        self._free.put(buf)


class Uploader:
    """Feeds host blocks to the GPU without waiting for the previous upload."""

    def __init__(self, n, count=3):
        self.n = n
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.buffers = PinnedBuffers(count, n)
        with self.stream:
            self.device = cp.empty(n, dtype=np.float32)
            self.total = cp.zeros(n, dtype=np.float64)
            self.count = cp.zeros(1, dtype=np.int64)

    def add(self, block):
        pinned = self.buffers.acquire()
        pinned[:] = block
        with self.stream:
            self.device.data.copy_from_host_async(
                pinned.ctypes.data, pinned.nbytes, self.stream)
            self.stream.launch_host_func(self.buffers.release, pinned)
            self.total += self.device
            self.count += 1

    def mean(self):
        with self.stream:
            mean = self.total / self.count
            host = mean.get(stream=self.stream)
        self.stream.synchronize()
        return host


def read_blocks(path, n):
    with open(path, "rb") as f:
        while True:
            raw = f.read(4 * n)
            if len(raw) < 4 * n:
                return
            yield np.frombuffer(raw, dtype=np.float32)


def mean_trace(path, n=1 << 20):
    up = Uploader(n)
    for block in read_blocks(path, n):
        up.add(block)
    return up.mean()
