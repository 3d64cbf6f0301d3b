import numpy as np
import pycuda.autoinit
import pycuda.driver as drv
import pycuda.gpuarray as gpuarray
from pycuda.elementwise import ElementwiseKernel


class PagelockedPool:
    def __init__(self, count, n):
        self.idle = [drv.pagelocked_empty(n, np.float32) for _ in range(count)]
        self.busy = []

    def take(self):
        still = []
        for block, event in self.busy:
            if event.query():
                self.idle.append(block)
            else:
                still.append((block, event))
        self.busy = still
        if not self.idle:
            block, event = self.busy.pop(0)
            event.synchronize()
            return block
        return self.idle.pop()

    def lend(self, block, stream):
        event = drv.Event(drv.event_flags.DISABLE_TIMING)
        event.record(stream)
        self.busy.append((block, event))


class Job:
    def __init__(self, n, stream):
        self.stream = stream
        self.x = gpuarray.empty(n, np.float32)
        self.y = gpuarray.empty(n, np.float32)
        self.done = drv.Event(drv.event_flags.DISABLE_TIMING)

    def run(self, kernel, block):
        self.x.set_async(block, stream=self.stream)
        kernel(self.x, self.y, stream=self.stream)
        self.done.record(self.stream)

    def result(self):
        self.done.synchronize()
        return self.y.get()


class Mapper:
    def __init__(self, n, streams=3, blocks=4):
        self.n = n
        self.pool = PagelockedPool(blocks, n)
        self.streams = [drv.Stream() for _ in range(streams)]
        self.kernel = ElementwiseKernel("float *x, float *y", "y[i] = logf(1.0f + x[i] * x[i])", "softlog")

    def submit(self, i, fill):
        stream = self.streams[i % len(self.streams)]
        block = self.pool.take()
        fill(block)
        job = Job(self.n, stream)
        job.run(self.kernel, block)
        self.pool.lend(block, stream)
        return job


def main(n=1 << 20, jobs=16):
    mapper = Mapper(n)
    rng = np.random.default_rng(0)

    def fill(block):
        block[:] = rng.random(n, dtype=np.float32)

    pending = [mapper.submit(i, fill) for i in range(jobs)]
    return [float(job.result().mean()) for job in pending]


if __name__ == "__main__":
    print(main())
