import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import skcuda.cublas as cublas
from pycuda.compiler import SourceModule

_RELU = SourceModule(
    """
__global__ void relu(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] < 0.f) x[i] = 0.f;
}
"""
).get_function("relu")


class DenseLayer:
    """y = relu(x W) in column-major order, everything on one stream."""

    def __init__(self, weight, max_batch):
        self.k, self.n = weight.shape
        self.max_batch = max_batch
        self.stream = drv.Stream()
        self.handle = cublas.cublasCreate()
        cublas.cublasSetStream(self.handle, self.stream.handle)
        self.host_x = drv.pagelocked_empty((max_batch, self.k), np.float32)
        self.host_y = drv.pagelocked_empty((max_batch, self.n), np.float32)
        self.x = drv.mem_alloc(self.host_x.nbytes)
        self.y = drv.mem_alloc(self.host_y.nbytes)
        self.w = drv.to_device(np.ascontiguousarray(weight, dtype=np.float32))

    def forward(self, batch):
        m = batch.shape[0]
        self.host_x[:m] = batch
        drv.memcpy_htod_async(self.x, self.host_x, self.stream)
        cublas.cublasSgemm(
            self.handle, "n", "n", self.n, m, self.k, np.float32(1.0), int(self.w), self.n,
            int(self.x), self.k, np.float32(0.0), int(self.y), self.n,
        )
        size = m * self.n
        _RELU(
            self.y, np.int32(size),
            block=(256, 1, 1), grid=((size + 255) // 256, 1), stream=self.stream,
        )
        drv.memcpy_dtoh_async(self.host_y, self.y, self.stream)
        self.stream.synchronize()
        return self.host_y[:m].copy()

    def close(self):
        self.stream.synchronize()
        cublas.cublasDestroy(self.handle)


def predict(weight, samples, batch=128):
    layer = DenseLayer(weight, batch)
    try:
        parts = [layer.forward(samples[i : i + batch]) for i in range(0, len(samples), batch)]
    finally:
        layer.close()
    return np.concatenate(parts)
