"""Triple-stream PyCUDA pipeline: upload, compute, download."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

MOD = SourceModule("""
__global__ void sharpen(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1) y[i] = 3.f * x[i] - x[i-1] - x[i+1];
  else if (i < n) y[i] = x[i];
}""")
SHARPEN = MOD.get_function("sharpen")
NO_TIMING = cuda.event_flags.DISABLE_TIMING


class Buffers:
    def __init__(self, n):
        self.h_in = cuda.pagelocked_empty(n, np.float32)
        self.h_out = cuda.pagelocked_empty(n, np.float32)
        self.d_in = cuda.mem_alloc(self.h_in.nbytes)
        self.d_out = cuda.mem_alloc(self.h_out.nbytes)
        self.uploaded, self.computed, self.downloaded = (cuda.Event(NO_TIMING) for _ in range(3))
        self.busy = False


class Pipeline:
    def __init__(self, n, depth=2):
        self.n = n
        self.sets = [Buffers(n) for _ in range(depth)]
        self.up, self.run, self.down = cuda.Stream(), cuda.Stream(), cuda.Stream()

    def _take(self, b):
        b.downloaded.synchronize()
        b.busy = False
        return b.h_out.copy()

    def _issue(self, b, row):
        b.h_in[:] = row
        cuda.memcpy_htod_async(b.d_in, b.h_in, self.up)
        b.uploaded.record(self.up)
        self.run.wait_for_event(b.uploaded)
        SHARPEN(b.d_in, b.d_out, np.int32(self.n), block=(256, 1, 1),
                grid=((self.n + 255) // 256, 1), stream=self.run)
        b.computed.record(self.run)
        self.down.wait_for_event(b.computed)
        cuda.memcpy_dtoh_async(b.h_out, b.d_out, self.down)
        b.downloaded.record(self.down)
        b.busy = True

    def process(self, rows):
        for k, row in enumerate(rows):
            b = self.sets[k % len(self.sets)]
            ready = self._take(b) if b.busy else None
            self._issue(b, row)
            if ready is not None:
                yield ready
        start = (k + 1) % len(self.sets)
        for b in self.sets[start:] + self.sets[:start]:
            if b.busy:
                yield self._take(b)


if __name__ == "__main__":
    data = np.random.rand(10, 1 << 16).astype(np.float32)
    print(sum(float(r.sum()) for r in Pipeline(1 << 16).process(data)))
