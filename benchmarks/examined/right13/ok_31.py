"""Upload, stencil and download of volume slabs on three streams with Numba."""
import math

import numpy as np
from numba import cuda


@cuda.jit
def laplace(src, dst):
    z, y, x = cuda.grid(3)
    d, h, w = src.shape
    if z >= d or y >= h or x >= w:
        return
    if z == 0 or y == 0 or x == 0 or z == d - 1 or y == h - 1 or x == w - 1:
        dst[z, y, x] = 0.0
        return
    dst[z, y, x] = (
        src[z - 1, y, x] + src[z + 1, y, x] + src[z, y - 1, x] + src[z, y + 1, x]
        + src[z, y, x - 1] + src[z, y, x + 1] - 6.0 * src[z, y, x]
    )


class Bay:
    def __init__(self, shape):
        self.inbound = cuda.pinned_array(shape, dtype=np.float32)
        self.outbound = cuda.pinned_array(shape, dtype=np.float32)
        self.src = cuda.device_array(shape, dtype=np.float32)
        self.dst = cuda.device_array(shape, dtype=np.float32)
        self.arrived = cuda.event(timing=False)
        self.computed = cuda.event(timing=False)
        self.departed = cuda.event(timing=False)
        self.job = None


class SlabPipeline:
    def __init__(self, slab_shape, bays=2):
        self.shape = slab_shape
        self.up, self.run, self.down = cuda.stream(), cuda.stream(), cuda.stream()
        self.bays = [Bay(slab_shape) for _ in range(bays)]
        self.threads = (4, 8, 8)
        self.blocks = tuple(math.ceil(n / t) for n, t in zip(slab_shape, self.threads))

    def _retire(self, bay, results):
        if bay.job is not None:
            bay.departed.synchronize()
            results[bay.job] = bay.outbound.copy()
            bay.job = None

    def _issue(self, bay, index, slab):
        bay.inbound[:] = slab
        bay.src.copy_to_device(bay.inbound, stream=self.up)
        bay.arrived.record(self.up)

        bay.arrived.wait(self.run)
        laplace[self.blocks, self.threads, self.run](bay.src, bay.dst)
        bay.computed.record(self.run)

        bay.computed.wait(self.down)
        bay.dst.copy_to_host(bay.outbound, stream=self.down)
        bay.departed.record(self.down)
        bay.job = index

    def map(self, slabs):
        results = {}
        try:
            for i, slab in enumerate(slabs):
                if slab.shape != self.shape:
                    raise ValueError(f"slab {i} has shape {slab.shape}")
                bay = self.bays[i % len(self.bays)]
                self._retire(bay, results)
                self._issue(bay, i, slab)
        finally:
            for bay in self.bays:
                self._retire(bay, results)
        return [results[i] for i in sorted(results)]


def main():
    rng = np.random.default_rng(0)
    slabs = [rng.random((32, 64, 64), dtype=np.float32) for _ in range(9)]
    out = SlabPipeline((32, 64, 64), bays=3).map(slabs)
    print(len(out), float(out[-1].std()))


if __name__ == "__main__":
    main()
