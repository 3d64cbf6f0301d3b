import numpy as np
from numba import cuda


@cuda.jit
def saxpy(y, x, a):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


class GpuArray:
    def __init__(self, ctx, size):
        self.ctx = ctx
        self.size = size
        self.data = cuda.device_array(size, dtype=np.float32)
        self.host = cuda.pinned_array(size, dtype=np.float32)
        self.last_read = cuda.event(timing=False)
        self.last_write = cuda.event(timing=False)
        self.last_read.record(ctx.s)
        self.last_write.record(ctx.s)

    def wait_before_write(self, stream):
        self.last_read.wait(stream)
        self.last_write.wait(stream)

    def wait_before_read(self, stream):
        self.last_write.wait(stream)

    def write(self, values):
        self.ctx.mem_s.synchronize()
        self.host[:] = values
        self.wait_before_write(self.ctx.mem_s)
        self.data.copy_to_device(self.host, stream=self.ctx.mem_s)
        self.last_write.record(self.ctx.mem_s)

    def read(self):
        self.wait_before_read(self.ctx.mem_s)
        self.data.copy_to_host(self.host, stream=self.ctx.mem_s)
        self.ctx.mem_s.synchronize()
        return self.host.copy()


class CudaContext:
    def __init__(self):
        self.s = cuda.stream()
        self.mem_s = cuda.stream()

    def saxpy(self, y, x, a):
        x.wait_before_read(self.s)
        y.wait_before_read(self.s)
        y.wait_before_write(self.s)
        saxpy[(y.size + 127) // 128, 128, self.s](y.data, x.data, np.float32(a))
        x.last_read.record(self.s)
        y.last_write.record(self.s)


def power_series(values, coefficients):
    ctx = CudaContext()
    n = len(values)
    acc, term = GpuArray(ctx, n), GpuArray(ctx, n)
    acc.write(np.zeros(n, dtype=np.float32))
    power = np.ones(n, dtype=np.float32)
    for c in coefficients:
        term.write(power)
        ctx.saxpy(acc, term, c)
        power = power * values
    return acc.read()
