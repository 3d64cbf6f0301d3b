"""Autocorrelation of pulsar time series, chunk by chunk, with PyCUDA arrays."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import pycuda.gpuarray as gpuarray
from pycuda.compiler import SourceModule

CHUNK = 1 << 18
LAGS = 128

mod = SourceModule("""
__global__ void lagged(const float *x, float *out, int n, int lags) {
    int lag = blockIdx.x;
    float s = 0.f;
    for (int i = threadIdx.x; i + lag < n; i += blockDim.x) s += x[i] * x[i + lag];
    atomicAdd(out + lag, s);
}
""")
lagged = mod.get_function("lagged")


class Autocorrelator:
    def __init__(self):
        self.stream = drv.Stream()
        self.lags = gpuarray.zeros(LAGS, np.float32)
        self.total = gpuarray.zeros(LAGS, np.float32)
        self.chunks = 0

    def feed(self, chunk):
        x = gpuarray.to_gpu(chunk)
        x -= gpuarray.sum(x).get() / np.float32(CHUNK)
        self.lags.fill(np.float32(0.0))
        lagged(x.gpudata, self.lags.gpudata, np.int32(CHUNK), np.int32(LAGS),
               block=(256, 1, 1), grid=(LAGS, 1), stream=self.stream)
        self.total += self.lags
        self.chunks += 1

    @property
    def value(self):
        return self.total.get() / self.chunks


def main():
    rng = np.random.default_rng(5)
    correlator = Autocorrelator()
    for _ in range(30):
        correlator.feed(rng.standard_normal(CHUNK).astype(np.float32))
    print(correlator.value[:5])


if __name__ == "__main__":
    main()
