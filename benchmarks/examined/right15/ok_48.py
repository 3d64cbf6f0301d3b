"""A PyCUDA worker thread that owns the context work and answers through futures."""
import queue
import threading
from concurrent.futures import Future

import numpy as np
import pycuda.driver as drv
from pycuda.compiler import SourceModule

SOURCE = """
__global__ void scale_add(float *x, float a, float b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = a * x[i] + b;
}
"""


class Worker:
    def __init__(self, capacity, ordinal=0, ahead=2):
        drv.init()
        self.capacity = capacity
        self.ordinal = ordinal
        self.ahead = ahead
        self._jobs = queue.Queue()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def submit(self, values, a, b):
        values = np.array(values, dtype=np.float32).ravel()
        if len(values) > self.capacity:
            raise ValueError("request is too long")
        future = Future()
        self._jobs.put((values, a, b, future))
        return future

    def close(self):
        self._jobs.put(None)
        self._thread.join()

    def _main(self):
        context = drv.Device(self.ordinal).retain_primary_context()
        context.push()
        try:
            self._loop()
        finally:
            context.pop()

    def _loop(self):
        kernel = SourceModule(SOURCE).get_function("scale_add")
        stream = drv.Stream()
        device = drv.mem_alloc(4 * self.capacity)
        spare = [drv.pagelocked_empty(self.capacity, np.float32)
                 for _ in range(self.ahead)]
        flying = []
        stopping = False
        while flying or not stopping:
            job = None
            if spare and not stopping:
                try:
                    job = self._jobs.get(block=not flying)
                    stopping = job is None
                except queue.Empty:
                    pass
            if job is not None:
                values, a, b, future = job
                page = spare.pop()
                part = page[:len(values)]
                part[:] = values
                done = drv.Event(drv.event_flags.DISABLE_TIMING)
                if len(values):
                    drv.memcpy_htod_async(device, part, stream)
                    kernel(device, np.float32(a), np.float32(b), np.int32(len(values)),
                           block=(128, 1, 1), grid=((len(values) + 127) // 128, 1),
                           stream=stream)
                    drv.memcpy_dtoh_async(part, device, stream)
                done.record(stream)
                flying.append((done, page, part, future))
            elif flying:
                done, page, part, future = flying.pop(0)
                done.synchronize()
                future.set_result(part.copy())
                spare.append(page)
        stream.synchronize()


def main():
    worker = Worker(1 << 16)
    try:
        futures = [worker.submit(np.arange(size), 2.0, float(size))
                   for size in (0, 1, 10, 1000, 1 << 16)]
        for future in futures:
            out = future.result()
            np.testing.assert_allclose(out, 2.0 * np.arange(len(out)) + len(out))
    finally:
        worker.close()


if __name__ == "__main__":
    main()
