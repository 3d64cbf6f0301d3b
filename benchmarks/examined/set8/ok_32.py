import math

import numpy as np
from numba import cuda


@cuda.jit
def logistic(x, y, r, n):
    i = cuda.grid(1)
    if i < n:
        v = x[i]
        for _ in range(64):
            v = r * v * (1.0 - v)
        y[i] = v


class Slot:

    def __init__(self, chunk):
        self.stream = cuda.stream()
        self.h_in = cuda.pinned_array(chunk, dtype=np.float32)
        self.h_out = cuda.pinned_array(chunk, dtype=np.float32)
        self.d_in = cuda.device_array(chunk, dtype=np.float32)
        self.d_out = cuda.device_array(chunk, dtype=np.float32)
        self.pending = None

    def submit(self, block, where, r):
        n = block.size
        self.h_in[:n] = block
        self.d_in.copy_to_device(self.h_in, stream=self.stream)
        logistic[math.ceil(n / 256), 256, self.stream](self.d_in, self.d_out, r, n)
        self.d_out.copy_to_host(self.h_out, stream=self.stream)
        self.pending = (where, n)

    def collect(self, out):
        if self.pending is None:
            return
        where, n = self.pending
        self.stream.synchronize()
        out[where:where + n] = self.h_out[:n]
        self.pending = None


class ChunkedMap:

    def __init__(self, chunk, n_slots=2):
        self.chunk = chunk
        self.slots = [Slot(chunk) for _ in range(n_slots)]

    def run(self, x, r):
        out = np.empty_like(x)
        for i, start in enumerate(range(0, x.size, self.chunk)):
            slot = self.slots[i % len(self.slots)]
            slot.collect(out)
            slot.submit(x[start:start + self.chunk], start, np.float32(r))
        for slot in self.slots:
            slot.collect(out)
        return out


if __name__ == "__main__":
    data = np.random.rand(1 << 24).astype(np.float32)
    print(ChunkedMap(1 << 20).run(data, 3.7)[:4])
