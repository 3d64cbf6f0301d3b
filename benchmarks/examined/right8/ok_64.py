"""Numba: sliding window of at most DEPTH outstanding reductions."""
from collections import deque, namedtuple

import numpy as np
from numba import cuda

DEPTH = 4
Flight = namedtuple("Flight", "index event host device source")


@cuda.jit
def block_max(x, out):
    tile = cuda.shared.array(256, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t] = x[i] if i < x.size else -1e30
    cuda.syncthreads()
    step = 128
    while step > 0:
        if t < step:
            tile[t] = max(tile[t], tile[t + step])
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = tile[0]


class WindowedMax:
    def __init__(self):
        self.flights = deque()
        self.found = {}

    def _land(self):
        flight = self.flights.popleft()
        flight.event.synchronize()
        self.found[flight.index] = float(flight.host.max())

    def launch(self, index, values):
        while len(self.flights) >= DEPTH:
            self._land()
        stream = cuda.stream()
        blocks = (values.size + 255) // 256
        source = cuda.pinned_array(values.shape, np.float32)
        source[:] = values
        host = cuda.pinned_array(blocks, np.float32)
        d_in = cuda.to_device(source, stream=stream)
        d_out = cuda.device_array(blocks, np.float32, stream=stream)
        block_max[blocks, 256, stream](d_in, d_out)
        d_out.copy_to_host(host, stream=stream)
        event = cuda.event(timing=False)
        event.record(stream)
        self.flights.append(Flight(index, event, host, (d_in, d_out, stream), source))

    def finish(self):
        while self.flights:
            self._land()
        return [self.found[k] for k in sorted(self.found)]


if __name__ == "__main__":
    w = WindowedMax()
    rng = np.random.default_rng(5)
    for k in range(11):
        w.launch(k, rng.random(100_000).astype(np.float32) + k)
    print(w.finish())
