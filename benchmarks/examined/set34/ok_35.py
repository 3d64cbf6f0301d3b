"""Log shipping with a growing set of page-locked chunks."""
from typing import List, Optional

import numpy as np
import pycuda.autoprimaryctx  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

_SOURCE = r"""
__global__ void histogram(const unsigned char* text, int n, unsigned int* bins)
{
    __shared__ unsigned int local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[text[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
"""


class Chunk:
    """Host and device halves of one transfer."""

    def __init__(self, capacity: int):
        self.host = drv.pagelocked_empty(capacity, dtype=np.uint8)
        self.dev = drv.mem_alloc(capacity)
        self.used = drv.Event(drv.event_flags.DISABLE_TIMING)

    def idle(self) -> bool:
        return self.used.query()


class HistogramService:
    def __init__(self, capacity: int, lanes: int = 2):
        self.capacity = capacity
        self.kernel = SourceModule(_SOURCE).get_function("histogram")
        self.streams: List[drv.Stream] = [drv.Stream() for _ in range(lanes)]
        self.bins = [drv.mem_alloc(256 * 4) for _ in range(lanes)]
        for b in self.bins:
            drv.memset_d32(b, 0, 256)
        drv.Context.synchronize()
        self.chunks: List[Chunk] = []
        self.turn = 0

    def _acquire(self) -> Chunk:
        for chunk in self.chunks:
            if chunk.idle():
                return chunk
        fresh = Chunk(self.capacity)
        self.chunks.append(fresh)
        return fresh

    def push(self, text: bytes) -> None:
        view = np.frombuffer(text, dtype=np.uint8)
        for start in range(0, view.size, self.capacity):
            part = view[start : start + self.capacity]
            chunk = self._acquire()
            chunk.host[: part.size] = part
            lane = self.turn
            self.turn = (self.turn + 1) % len(self.streams)
            stream = self.streams[lane]
            drv.memcpy_htod_async(chunk.dev, chunk.host, stream)
            self.kernel(
                chunk.dev,
                np.int32(part.size),
                self.bins[lane],
                block=(256, 1, 1),
                grid=(64, 1),
                stream=stream,
            )
            chunk.used.record(stream)

    def totals(self, reset: bool = False) -> np.ndarray:
        parts = []
        for stream, bins in zip(self.streams, self.bins):
            host = drv.pagelocked_empty(256, dtype=np.uint32)
            drv.memcpy_dtoh_async(host, bins, stream)
            if reset:
                drv.memset_d32_async(bins, 0, 256, stream)
            parts.append(host)
        for stream in self.streams:
            stream.synchronize()
        return np.sum(parts, axis=0, dtype=np.uint64)


def ship(service: HistogramService, lines: Optional[int] = None) -> None:
    rng = np.random.default_rng(0)
    for _ in range(lines or 1000):
        service.push(rng.integers(32, 127, size=1 << 20, dtype=np.uint8).tobytes())


if __name__ == "__main__":
    svc = HistogramService(1 << 18)
    ship(svc)
    print(svc.totals(reset=True).sum(), len(svc.chunks))
