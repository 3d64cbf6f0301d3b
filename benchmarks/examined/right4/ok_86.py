import queue
import threading

import numpy as np
import pycuda.driver as drv
from pycuda.compiler import SourceModule

KERNEL = """
__global__ void power(float *re, const float *c, int n, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z = 0.0f;
    for (int k = 0; k < rounds; ++k) z = z * z + c[i];
    re[i] = z;
}
"""


class DeviceThread(threading.Thread):
    def __init__(self, ordinal, tasks, results, chunk):
        super().__init__()
        self.ordinal, self.tasks, self.results, self.chunk = ordinal, tasks, results, chunk

    def _prepare(self):
        self.power = SourceModule(KERNEL).get_function("power")
        self.stream = drv.Stream()
        self.host = drv.pagelocked_empty((2, self.chunk), np.float32)
        self.c = drv.mem_alloc(self.host[0].nbytes)
        self.out = drv.mem_alloc(self.host[1].nbytes)

    def _process(self, values):
        n = values.size
        source, target = self.host[0][:n], self.host[1][:n]
        source[:] = values
        drv.memcpy_htod_async(self.c, source, self.stream)
        self.power(self.out, self.c, np.int32(n), np.int32(64), block=(128, 1, 1),
                   grid=((n + 127) // 128, 1), stream=self.stream)
        drv.memcpy_dtoh_async(target, self.out, self.stream)
        self.stream.synchronize()
        return target.copy()

    def _release(self):
        self.c.free()
        self.out.free()
        del self.host, self.stream, self.power

    def run(self):
        context = drv.Device(self.ordinal).make_context()
        try:
            self._prepare()
            while (task := self.tasks.get()) is not None:
                index, values = task
                self.results.put((index, self._process(values)))
            self._release()
        finally:
            context.pop()
            context.detach()


def run_all(data, chunk=1 << 18):
    drv.init()
    tasks, results = queue.Queue(), queue.Queue()
    pieces = np.array_split(data, -(-data.size // chunk))
    for item in enumerate(pieces):
        tasks.put(item)
    threads = [DeviceThread(d, tasks, results, chunk) for d in range(drv.Device.count())]
    for _ in threads:
        tasks.put(None)
    for t in threads:
        t.start()
    gathered = dict(results.get() for _ in pieces)
    for t in threads:
        t.join()
    return np.concatenate([gathered[i] for i in range(len(pieces))])


if __name__ == "__main__":
    print(run_all(np.random.default_rng(0).uniform(-1, 0.25, 1 << 22).astype(np.float32)).mean())
