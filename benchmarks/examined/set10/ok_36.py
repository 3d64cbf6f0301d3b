import queue
import threading

import numpy as np
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

_SRC = r"""
__global__ void quantize(const float *x, const float *centers, int k, unsigned char *code, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float best = 1e30f; int arg = 0;
    for (int c = 0; c < k; ++c) {
        float d = x[i] - centers[c];
        d *= d;
        if (d < best) { best = d; arg = c; }
    }
    code[i] = (unsigned char)arg;
}
"""


class SharedModel:
    def __init__(self, centers, device=0):
        cuda.init()
        self.context = cuda.Device(device).retain_primary_context()
        self.context.push()
        self.k = len(centers)
        self.module = SourceModule(_SRC)
        self.centers = cuda.mem_alloc(4 * self.k)
        cuda.memcpy_htod(self.centers, np.asarray(centers, np.float32))
        cuda.Context.synchronize()
        self.context.pop()


class Worker(threading.Thread):
    def __init__(self, model, jobs, results, max_n):
        super().__init__(daemon=True)
        self.model, self.jobs, self.results, self.max_n = model, jobs, results, max_n

    def run(self):
        self.model.context.push()
        try:
            self._serve()
        finally:
            self.model.context.pop()

    def _serve(self):
        stream = cuda.Stream()
        finished = cuda.Event()
        kernel = self.model.module.get_function("quantize")
        host_in = cuda.pagelocked_empty(self.max_n, np.float32)
        host_out = cuda.pagelocked_empty(self.max_n, np.uint8)
        dev_in = cuda.mem_alloc(host_in.nbytes)
        dev_out = cuda.mem_alloc(host_out.nbytes)
        for tag, values in iter(self.jobs.get, None):
            n = len(values)
            host_in[:n] = values
            cuda.memcpy_htod_async(dev_in, host_in[:n], stream)
            kernel(
                dev_in,
                self.model.centers,
                np.int32(self.model.k),
                dev_out,
                np.int32(n),
                block=(256, 1, 1),
                grid=((n + 255) // 256, 1),
                stream=stream,
            )
            cuda.memcpy_dtoh_async(host_out[:n], dev_out, stream)
            finished.record(stream)
            finished.synchronize()
            self.results.put((tag, host_out[:n].copy()))


def encode(batches, centers, n_workers=3, max_n=1 << 20):
    model = SharedModel(centers)
    jobs, results = queue.Queue(2 * n_workers), queue.Queue()
    workers = [Worker(model, jobs, results, max_n) for _ in range(n_workers)]
    for w in workers:
        w.start()
    total = 0
    for total, batch in enumerate(batches, 1):
        jobs.put((total - 1, batch))
    for _ in workers:
        jobs.put(None)
    for w in workers:
        w.join()
    return dict(results.get() for _ in range(total))
