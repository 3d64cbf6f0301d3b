"""PyCUDA: one context per device thread; results cross threads as host arrays."""
import threading
from queue import Queue

import numpy as np
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

SRC = """
__global__ void decay(float *x, float r, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= expf(-r * i / n);
}"""


class DeviceThread(threading.Thread):
    def __init__(self, ordinal, jobs, results, n):
        super().__init__()
        self.ordinal, self.jobs, self.results, self.n = ordinal, jobs, results, n

    def run(self):
        ctx = cuda.Device(self.ordinal).make_context()
        try:
            self._setup()
            for job in iter(self.jobs.get, None):
                self._work(*job)
            self.stream.synchronize()
        finally:
            ctx.pop()
            ctx.detach()

    def _setup(self):
        self.kernel = SourceModule(SRC).get_function("decay")
        self.stream = cuda.Stream()
        self.host = cuda.pagelocked_empty(self.n, np.float32)
        self.dev = cuda.mem_alloc(self.host.nbytes)
        self.done = cuda.Event(cuda.event_flags.BLOCKING_SYNC | cuda.event_flags.DISABLE_TIMING)

    def _work(self, key, values, rate):
        self.host[:] = values
        cuda.memcpy_htod_async(self.dev, self.host, self.stream)
        self.kernel(self.dev, np.float32(rate), np.int32(self.n), block=(256, 1, 1),
                    grid=((self.n + 255) // 256, 1), stream=self.stream)
        cuda.memcpy_dtoh_async(self.host, self.dev, self.stream)
        self.done.record(self.stream)
        self.done.synchronize()
        self.results.put((key, self.host.copy()))


def main(n=1 << 16, count=12):
    cuda.init()
    jobs, results = Queue(), Queue()
    threads = [DeviceThread(d, jobs, results, n) for d in range(cuda.Device.count())]
    for k in range(count):
        jobs.put((k, np.ones(n, np.float32), 0.1 * k))
    for t in threads:
        jobs.put(None)
        t.start()
    for t in threads:
        t.join()
    got = dict(results.get() for _ in range(count))
    return [float(got[k].mean()) for k in range(count)]


if __name__ == "__main__":
    print(main())
