"""Batched normalisation with pooled PyCUDA arrays on several streams."""
from __future__ import annotations

from collections import deque

import numpy as np
import pycuda.autoinit
import pycuda.driver as drv
import pycuda.gpuarray as gpuarray
from pycuda.compiler import SourceModule
from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

_module = SourceModule(
    """
__global__ void normalise(const float *x, float *y, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0.f, q = 0.f;
    for (int c = 0; c < cols; ++c) {
        float v = x[r * cols + c];
        s += v;
        q += v * v;
    }
    float m = s / cols;
    float d = rsqrtf(fmaxf(q / cols - m * m, 1e-8f));
    for (int c = 0; c < cols; ++c) y[r * cols + c] = (x[r * cols + c] - m) * d;
}
"""
)
_normalise = _module.get_function("normalise")


class Job:
    def __init__(self, key, event, host_in, host_out, x, y) -> None:
        self.key = key
        self.event = event
        self.host_in, self.host_out = host_in, host_out
        self.x, self.y = x, y


class Normaliser:
    def __init__(self, streams: int = 3, limit: int = 6) -> None:
        self.streams = [drv.Stream() for _ in range(streams)]
        self.limit = limit
        self.device_pool = DeviceMemoryPool()
        self.host_pool = PageLockedMemoryPool()
        self.jobs: deque[Job] = deque()
        self.results: dict[object, np.ndarray] = {}
        self.count = 0

    def submit(self, key, batch: np.ndarray) -> None:
        while len(self.jobs) >= self.limit:
            self._retire()
        stream = self.streams[self.count % len(self.streams)]
        self.count += 1
        rows, cols = batch.shape
        host_in = self.host_pool.allocate(batch.shape, np.float32)
        host_out = self.host_pool.allocate(batch.shape, np.float32)
        x = gpuarray.GPUArray(batch.shape, np.float32, allocator=self.device_pool.allocate)
        y = gpuarray.GPUArray(batch.shape, np.float32, allocator=self.device_pool.allocate)
        event = drv.Event(drv.event_flags.DISABLE_TIMING)
        host_in[...] = batch
        try:
            drv.memcpy_htod_async(x.gpudata, host_in, stream)
            _normalise(
                x.gpudata, y.gpudata, np.int32(rows), np.int32(cols),
                block=(64, 1, 1), grid=(-(-rows // 64), 1), stream=stream,
            )
            drv.memcpy_dtoh_async(host_out, y.gpudata, stream)
            event.record(stream)
        except BaseException:
            stream.synchronize()
            raise
        self.jobs.append(Job(key, event, host_in, host_out, x, y))

    def _retire(self) -> None:
        job = self.jobs[0]
        job.event.synchronize()
        self.jobs.popleft()
        self.results[job.key] = np.array(job.host_out)

    def collect(self) -> dict[object, np.ndarray]:
        while self.jobs:
            self._retire()
        results, self.results = self.results, {}
        return results

    def close(self) -> None:
        self.collect()
        self.device_pool.stop_holding()
        self.host_pool.stop_holding()


def main() -> None:
    rng = np.random.default_rng(3)
    normaliser = Normaliser()
    try:
        for key in range(24):
            rows = int(rng.integers(1, 2000))
            normaliser.submit(key, rng.standard_normal((rows, 64)).astype(np.float32) * key + key)
        for key, value in sorted(normaliser.collect().items()):
            print(key, value.shape, float(value.std()))
    finally:
        normaliser.close()


if __name__ == "__main__":
    main()
