import numpy as np
from numba import cuda

READ = 1
WRITE = 2


@cuda.jit
def fill_kernel(out, value):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = value


@cuda.jit
def scatter_kernel(out, index, values):
    i = cuda.grid(1)
    if i < index.size:
        cuda.atomic.add(out, index[i], values[i])


@cuda.jit
def axpy_kernel(y, x, alpha):
    i = cuda.grid(1)
    if i < y.size:
        y[i] += alpha * x[i]


class GpuData:
    """Device array with the events of its last read and its last write."""

    def __init__(self, size, dtype=np.float32):
        self.array = cuda.device_array(size, dtype=dtype)
        self.rev = cuda.event(timing=False)
        self.wev = cuda.event(timing=False)
        self.was_read = False
        self.was_written = False

    def wait(self, stream, flags):
        if flags & READ and self.was_written:
            self.wev.wait(stream)
        if flags & WRITE and self.was_read:
            self.rev.wait(stream)

    def record(self, stream, flags):
        if flags & READ:
            self.rev.record(stream)
            self.was_read = True
        if flags & WRITE:
            self.wev.record(stream)
            self.was_written = True


class GpuContext:
    def __init__(self):
        self.compute = cuda.stream()
        self.mem = cuda.stream()

    def fill(self, data, value):
        data.wait(self.compute, WRITE)
        fill_kernel[(data.array.size + 255) // 256, 256, self.compute](data.array, value)
        data.record(self.compute, WRITE)

    def scatter(self, data, index, values):
        d_index = cuda.to_device(index, stream=self.mem)
        d_values = cuda.to_device(values, stream=self.mem)
        data.wait(self.mem, WRITE)
        scatter_kernel[(index.size + 255) // 256, 256, self.mem](data.array, d_index, d_values)
        data.record(self.mem, WRITE)
        self.mem.synchronize()

    def axpy(self, y, x, alpha):
        y.wait(self.compute, READ | WRITE)
        x.wait(self.compute, READ)
        axpy_kernel[(y.array.size + 255) // 256, 256, self.compute](y.array, x.array, alpha)
        x.record(self.compute, READ)
        y.record(self.compute, READ | WRITE)


def sparse_update(ctx, weights, grad, index, values, lr):
    ctx.fill(grad, 0.0)
    ctx.scatter(grad, index, values)
    ctx.axpy(weights, grad, -lr)
    return weights
