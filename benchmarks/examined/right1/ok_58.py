"""Producer and consumer streams on the CUDA async pool of RMM."""
from collections import deque

import cupy as cp
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator


class DeferredRelease:
    """Holds references for as long as another stream may use them."""

    def __init__(self):
        self._held = deque()

    def hold(self, stream, *arrays):
        self._held.append((stream.record(), arrays))
        self.sweep()

    def sweep(self):
        while self._held and self._held[0][0].done:
            self._held.popleft()

    def close(self):
        while self._held:
            event, _ = self._held[0]
            event.synchronize()
            self._held.popleft()


class Correlator:
    def __init__(self, n):
        self.n = n
        self.produce = cp.cuda.Stream(non_blocking=True)
        self.consume = cp.cuda.Stream(non_blocking=True)
        self.keep = DeferredRelease()
        with self.consume:
            self.power = cp.zeros(n // 2 + 1, cp.float32)

    def feed(self, samples):
        with self.produce:
            block = cp.asarray(samples)
            windowed = block * cp.hanning(self.n).astype(cp.float32)
            ready = self.produce.record()
        self.consume.wait_event(ready)
        with self.consume:
            spec = cp.fft.rfft(windowed)
            self.power += cp.abs(spec) ** 2
        self.keep.hold(self.consume, windowed)

    def finish(self):
        with self.consume:
            host = cp.asnumpy(self.power)
        self.keep.close()
        self.produce.synchronize()
        return host


def main(n=1 << 16, blocks=64):
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    cp.cuda.set_allocator(rmm_cupy_allocator)
    corr = Correlator(n)
    rng = np.random.default_rng(18)
    for _ in range(blocks):
        corr.feed(rng.standard_normal(n).astype(np.float32))
    return corr.finish()


if __name__ == "__main__":
    print(main()[:8])
