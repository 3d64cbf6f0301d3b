import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import pycuda.gpuarray as gpuarray
from pycuda.elementwise import ElementwiseKernel
from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

_logistic = ElementwiseKernel("float *p, const float *x, const float *w", "p[i] = 1.0f / (1.0f + expf(-x[i] * w[i]))", "logistic")


class PooledScorer:
    """Temporaries from a device pool and staging from a page-locked pool."""

    def __init__(self, weights):
        self.device_pool = DeviceMemoryPool()
        self.host_pool = PageLockedMemoryPool()
        self.stream = drv.Stream()
        self.w = gpuarray.to_gpu(weights)
        drv.Context.synchronize()

    def _array(self, like):
        return gpuarray.empty(like.shape, like.dtype, allocator=self.device_pool.allocate)

    def score(self, rows):
        out = np.empty(len(rows), np.float32)
        staging = self.host_pool.allocate(self.w.shape, np.float32)
        result = self.host_pool.allocate(self.w.shape, np.float32)
        for k, row in enumerate(rows):
            staging[:] = row
            x = self._array(self.w)
            p = self._array(self.w)
            drv.memcpy_htod_async(x.gpudata, staging, self.stream)
            _logistic(p, x, self.w, stream=self.stream)
            drv.memcpy_dtoh_async(result, p.gpudata, self.stream)
            self.stream.synchronize()
            out[k] = result.mean()
        return out

    def close(self):
        drv.Context.synchronize()
        self.device_pool.stop_holding()
        self.host_pool.stop_holding()


def main():
    rng = np.random.default_rng(0)
    scorer = PooledScorer(rng.standard_normal(1 << 16).astype(np.float32))
    for _ in range(5):
        print(scorer.score(rng.standard_normal((8, 1 << 16)).astype(np.float32)).mean())
    scorer.close()


if __name__ == "__main__":
    main()
