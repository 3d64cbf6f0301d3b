"""Ping-pong matched filter in PyCUDA with a load and a work stream."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

MODULE = SourceModule("""
__global__ void correlate(const float *x, const float *t, float *y, int n, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n - m) return;
    float acc = 0;
    for (int k = 0; k < m; ++k) acc += x[i + k] * t[k];
    y[i] = acc;
}
""")


class Half:
    """One half of the ping-pong: input, output and the events about them."""

    def __init__(self, n):
        self.h_in = drv.pagelocked_empty(n, np.float32)
        self.h_out = drv.pagelocked_empty(n, np.float32)
        self.d_in = drv.mem_alloc(self.h_in.nbytes)
        self.d_out = drv.mem_alloc(self.h_out.nbytes)
        self.loaded = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.finished = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.tag = None


class MatchedFilter:
    def __init__(self, template, n):
        self.n, self.m = np.int32(n), np.int32(template.size)
        self.template = drv.to_device(template.astype(np.float32))
        self.kernel = MODULE.get_function("correlate")
        self.load, self.work = drv.Stream(), drv.Stream()
        self.halves = [Half(n), Half(n)]

    def _enqueue(self, half, tag, segment):
        half.tag = tag
        half.h_in[:] = segment
        drv.memcpy_htod_async(half.d_in, half.h_in, self.load)
        half.loaded.record(self.load)
        self.work.wait_for_event(half.loaded)
        self.kernel(half.d_in, self.template, half.d_out, self.n, self.m,
                    block=(256, 1, 1), grid=((int(self.n) + 255) // 256, 1), stream=self.work)
        drv.memcpy_dtoh_async(half.h_out, half.d_out, self.work)
        half.finished.record(self.work)

    def _take(self, half):
        tag, half.tag = half.tag, None
        half.finished.synchronize()
        valid = half.h_out[: int(self.n - self.m)]
        return tag, int(valid.argmax()), float(valid.max())

    def scan(self, segments):
        for k, segment in enumerate(segments):
            half = self.halves[k & 1]
            if half.tag is not None:
                yield self._take(half)
            self._enqueue(half, k, segment)
        for half in sorted((h for h in self.halves if h.tag is not None), key=lambda h: h.tag):
            yield self._take(half)


if __name__ == "__main__":
    rng = np.random.default_rng(31)
    chirp = np.sin(np.linspace(0, 40, 256) ** 2)
    mf = MatchedFilter(chirp, 1 << 18)
    for hit in mf.scan(rng.standard_normal(1 << 18) for _ in range(10)):
        print(hit)
