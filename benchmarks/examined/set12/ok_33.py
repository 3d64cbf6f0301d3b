import cupy as cp
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator
from rmm.pylibrmm.stream import Stream

_SCALE = cp.RawKernel(
    r"""
extern "C" __global__ void scale_add(const double* x, const double* y, double a, double* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = a * x[i] + y[i];
}
""",
    "scale_add",
)


def setup_pool(initial=1 << 28):
    rmm.mr.set_current_device_resource(
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=initial)
    )
    cp.cuda.set_allocator(rmm_cupy_allocator)


class Column:
    def __init__(self, size, stream, buffer=None):
        self.size = size
        self.stream = stream
        self.buffer = buffer or rmm.DeviceBuffer(size=size * 8, stream=Stream(stream))

    @classmethod
    def from_host(cls, array, stream):
        array = np.ascontiguousarray(array, dtype=np.float64)
        buffer = rmm.DeviceBuffer.to_device(array.view(np.uint8), stream=Stream(stream))
        stream.synchronize()
        return cls(array.size, stream, buffer)

    def axpy(self, a, other):
        out = Column(self.size, self.stream)
        with self.stream:
            _SCALE(
                ((self.size + 255) // 256,), (256,),
                (self.buffer.ptr, other.buffer.ptr, cp.float64(a), out.buffer.ptr,
                 cp.int32(self.size)),
            )
        return out

    def to_host(self):
        host = np.empty(self.size, dtype=np.float64)
        self.buffer.copy_to_host(host.view(np.uint8), stream=Stream(self.stream))
        self.stream.synchronize()
        return host


def horner(coefficients, x):
    stream = cp.cuda.Stream(non_blocking=True)
    acc = Column.from_host(coefficients[-1], stream)
    for c in reversed(coefficients[:-1]):
        acc = acc.axpy(x, Column.from_host(c, stream))
    return acc.to_host()
