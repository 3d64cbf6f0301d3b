"""PyCUDA worker thread fed through queues of buffer numbers."""
import queue
import threading

import numpy as np
import pycuda.driver as drv
from pycuda.compiler import SourceModule

SOURCE = """
__global__ void gamma_correct(float *x, float g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = powf(fabsf(x[i]), g);
}
"""


class GammaWorker(threading.Thread):
    def __init__(self, context, n, depth=3):
        super().__init__(daemon=True)
        self.context = context
        self.n = n
        self.buffers = [drv.pagelocked_empty(n, np.float32) for _ in range(depth)]
        self.todo = queue.Queue()
        self.done = queue.Queue()
        self.error = None

    def run(self):
        self.context.push()
        try:
            stream = drv.Stream()
            kernel = SourceModule(SOURCE).get_function("gamma_correct")
            device = drv.mem_alloc(self.buffers[0].nbytes)
            grid = ((self.n + 255) // 256, 1)
            for index, gamma in iter(self.todo.get, None):
                host = self.buffers[index]
                drv.memcpy_htod_async(device, host, stream)
                kernel(device, np.float32(gamma), np.int32(self.n),
                       block=(256, 1, 1), grid=grid, stream=stream)
                drv.memcpy_dtoh_async(host, device, stream)
                stream.synchronize()
                self.done.put(index)
            device.free()
        except Exception as exc:
            self.error = exc
            self.done.put(None)
        finally:
            self.context.pop()


def correct(frames, worker, gamma=0.45):
    idle = list(range(len(worker.buffers)))
    for frame in frames:
        if not idle:
            index = worker.done.get()
            if index is None:
                raise worker.error
            yield worker.buffers[index].copy()
            idle.append(index)
        index = idle.pop()
        worker.buffers[index][:] = frame
        worker.todo.put((index, gamma))
    for _ in range(len(worker.buffers) - len(idle)):
        index = worker.done.get()
        if index is None:
            raise worker.error
        yield worker.buffers[index].copy()


def main(n=1 << 20, count=24):
    drv.init()
    context = drv.Device(0).retain_primary_context()
    context.push()
    try:
        worker = GammaWorker(context, n)
        worker.start()
        rng = np.random.default_rng(32)
        frames = (rng.random(n, dtype=np.float32) for _ in range(count))
        means = [float(f.mean()) for f in correct(frames, worker)]
        worker.todo.put(None)
        worker.join()
        return means
    finally:
        context.pop()


if __name__ == "__main__":
    print(main())
