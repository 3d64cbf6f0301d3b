"""PyCUDA memory pool use with a reaper that keeps blocks until their event has passed."""
from collections import deque

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
from pycuda.compiler import SourceModule
from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

SQUARE = SourceModule("""
__global__ void square(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= x[i];
}""").get_function("square")


class Reaper:
    def __init__(self):
        self._held = deque()

    def hold(self, stream, *objects):
        self._held.append((cuda.Event().record(stream), objects))

    def poll(self):
        while self._held and self._held[0][0].query():
            self._held.popleft()

    def flush(self):
        while self._held:
            event, _ = self._held[0]
            event.synchronize()
            self._held.popleft()


class Squarer:
    def __init__(self, lanes=3):
        self.dev = DeviceMemoryPool()
        self.host = PageLockedMemoryPool()
        self.streams = [cuda.Stream() for _ in range(lanes)]
        self.reaper = Reaper()

    def submit(self, k, values):
        self.reaper.poll()
        stream = self.streams[k % len(self.streams)]
        n = values.size
        staged = self.host.allocate((n,), np.float32)
        staged[:] = values
        block = self.dev.allocate(staged.nbytes)
        result = cuda.pagelocked_empty(n, np.float32)
        cuda.memcpy_htod_async(block, staged, stream)
        SQUARE(block, np.int32(n), block=(128, 1, 1), grid=((n + 127) // 128, 1), stream=stream)
        cuda.memcpy_dtoh_async(result, block, stream)
        self.reaper.hold(stream, staged, block, result)
        return result

    def run(self, batches):
        try:
            results = [self.submit(k, b) for k, b in enumerate(batches)]
        finally:
            self.reaper.flush()
        return [float(r.sum()) for r in results]


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    print(Squarer().run([rng.random(1000 + 10 * k).astype(np.float32) for k in range(12)]))
