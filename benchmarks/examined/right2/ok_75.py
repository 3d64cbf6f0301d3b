"""Host-edited lookup table in managed memory."""
import ctypes
from contextlib import contextmanager

import cupy as cp
import numpy as np

CPU = -1

apply_table = cp.ElementwiseKernel(
    "uint8 pixel, raw float32 table", "float32 out", "out = table[pixel]", "apply_table"
)


class ManagedTable:
    def __init__(self, entries, stream):
        self.stream = stream
        self.pool = cp.cuda.MemoryPool(cp.cuda.malloc_managed)
        with stream, cp.cuda.using_allocator(self.pool.malloc):
            self.device = cp.zeros(entries, dtype=cp.float32)
        raw = (ctypes.c_float * entries).from_address(self.device.data.ptr)
        self.host = np.frombuffer(raw, dtype=np.float32)

    def _prefetch(self, target):
        cp.cuda.runtime.memPrefetchAsync(
            self.device.data.ptr, self.device.nbytes, target, self.stream.ptr
        )

    @contextmanager
    def host_access(self):
        self._prefetch(CPU)
        self.stream.synchronize()
        try:
            yield self.host
        finally:
            self._prefetch(cp.cuda.Device().id)


class ToneMapper:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.table = ManagedTable(256, self.stream)

    def set_gamma(self, gamma):
        with self.table.host_access() as curve:
            curve[:] = np.linspace(0.0, 1.0, 256, dtype=np.float32) ** gamma

    def current_peak(self):
        with self.table.host_access() as curve:
            return float(curve.max())

    def map(self, image):
        with self.stream:
            pixels = cp.asarray(image)
            out = cp.empty(pixels.shape, dtype=cp.float32)
            apply_table(pixels, self.table.device, out)
            return out.mean()


def main():
    mapper = ToneMapper()
    rng = np.random.default_rng(0)
    means, peaks = [], []
    for gamma in (0.5, 1.0, 1.8, 2.2):
        mapper.set_gamma(gamma)
        for _ in range(4):
            image = rng.integers(0, 256, (512, 512), dtype=np.uint8)
            means.append(mapper.map(image))
        peaks.append(mapper.current_peak())
    mapper.stream.synchronize()
    with mapper.stream:
        return [float(m) for m in means], peaks


if __name__ == "__main__":
    print(main())
