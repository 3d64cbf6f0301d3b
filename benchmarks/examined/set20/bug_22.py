"""Stack-driven block multiplication with one memory-area stream per matrix."""
import cupy as cp
import cupyx
import numpy as np

N = 768


class Area:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.data = cp.zeros((N, N), dtype=cp.float32)


class StackBuffer:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.ready = cp.cuda.Event(disable_timing=True)
        self.calculated = cp.cuda.Event(disable_timing=True)


class MMDriver:
    def __init__(self, nbuf=2):
        self.a = Area()
        self.b = Area()
        self.c = Area()
        self.buffers = [StackBuffer() for _ in range(nbuf)]
        self.uploaded = cp.cuda.Event(disable_timing=True)
        cp.cuda.Device().synchronize()

    def upload(self, host_a, host_b):
        for area, host in ((self.a, host_a), (self.b, host_b)):
            area.data.set(host, stream=area.stream)
            self.uploaded.record(area.stream)
            self.c.stream.wait_event(self.uploaded)
            for buf in self.buffers:
                buf.stream.wait_event(self.uploaded)

    def process(self, index, large):
        buf = self.buffers[index % len(self.buffers)]
        if large:
            with self.c.stream:
                cp.matmul(self.a.data, self.b.data, out=self.c.data)
        else:
            buf.ready.record(self.c.stream)
            buf.stream.wait_event(buf.ready)
            with buf.stream:
                cp.multiply(self.a.data, self.b.data, out=self.c.data)
        buf.calculated.record(buf.stream)
        for area in (self.a, self.b, self.c):
            area.stream.wait_event(buf.calculated)

    def download(self, out):
        self.c.data.get(stream=self.c.stream, out=out, blocking=False)
        self.c.stream.synchronize()


def main(panels=6):
    host = []
    for i in range(2 * panels):
        m = cupyx.empty_pinned((N, N), dtype=np.float32)
        m[...] = np.random.rand(N, N)
        host.append(m)
    out = cupyx.empty_pinned((N, N), dtype=np.float32)
    drv = MMDriver()
    total = np.zeros((N, N), dtype=np.float64)
    for p in range(panels):
        drv.upload(host[2 * p], host[2 * p + 1])
        drv.process(p, large=True)
        if p % 3 == 2:
            drv.download(out)
            total += out
    return total


if __name__ == "__main__":
    print(main().sum())
