"""Variable-length requests on rotating streams with a device memory pool (PyCUDA)."""
from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np
import pycuda.autoprimaryctx  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule
from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

_MODULE = SourceModule(
    """
__global__ void softsign(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / (1.0f + fabsf(x[i]));
}
"""
)


class _Flight(NamedTuple):
    future: Future
    source: np.ndarray
    target: np.ndarray
    dev_in: object
    dev_out: object
    done: drv.Event


class SoftsignService:
    def __init__(self, streams: int = 3, limit: int = 16):
        self._kernel = _MODULE.get_function("softsign")
        self._device_pool = DeviceMemoryPool()
        self._host_pool = PageLockedMemoryPool()
        self._streams = [drv.Stream() for _ in range(streams)]
        self._turn = 0
        self._limit = limit
        self._flights: deque[_Flight] = deque()

    def submit(self, values: np.ndarray) -> Future:
        if values.ndim != 1 or values.size == 0:
            raise ValueError("a non-empty vector is needed")
        self.poll()
        while len(self._flights) >= self._limit:
            self._land(self._flights.popleft())
        stream = self._streams[self._turn]
        self._turn = (self._turn + 1) % len(self._streams)
        count = values.size
        source = self._host_pool.allocate((count,), np.float32)
        target = self._host_pool.allocate((count,), np.float32)
        dev_in = self._device_pool.allocate(4 * count)
        dev_out = self._device_pool.allocate(4 * count)
        source[:] = values
        try:
            drv.memcpy_htod_async(dev_in, source, stream)
            self._kernel(
                dev_in, dev_out, np.int32(count), block=(256, 1, 1), grid=((count + 255) // 256, 1), stream=stream
            )
            drv.memcpy_dtoh_async(target, dev_out, stream)
            done = drv.Event()
            done.record(stream)
        except BaseException:
            stream.synchronize()
            raise
        flight = _Flight(Future(), source, target, dev_in, dev_out, done)
        self._flights.append(flight)
        return flight.future

    def _land(self, flight: _Flight) -> None:
        flight.done.synchronize()
        flight.future.set_result(flight.target.copy())

    def poll(self) -> int:
        landed = 0
        for _ in range(len(self._flights)):
            flight = self._flights.popleft()
            if flight.done.query():
                self._land(flight)
                landed += 1
            else:
                self._flights.append(flight)
        return landed

    def drain(self) -> None:
        while self._flights:
            self._land(self._flights.popleft())

    def close(self) -> None:
        self.drain()
        self._device_pool.stop_holding()
        self._host_pool.stop_holding()


def main() -> None:
    rng = np.random.default_rng(0)
    service = SoftsignService()
    expected, futures = [], []
    scratch = np.empty(1 << 16, dtype=np.float32)
    for _ in range(60):
        part = scratch[: rng.integers(1, scratch.size)]
        part[:] = rng.normal(size=part.size)
        expected.append(part / (1 + np.abs(part)))
        futures.append(service.submit(part))
    service.drain()
    worst = max(float(np.abs(f.result() - e).max()) for f, e in zip(futures, expected))
    service.close()
    print(worst)


if __name__ == "__main__":
    main()
