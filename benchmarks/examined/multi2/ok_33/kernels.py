import numpy as np
from pycuda.compiler import SourceModule

SOURCE = r"""
__global__ void partial(const float *a, const float *b, float *part, int n) {
    __shared__ float s[256];
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        v += (a[i] - b[i]) * (a[i] - b[i]);
    s[threadIdx.x] = v; __syncthreads();
    for (int k = 128; k; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (!threadIdx.x) part[blockIdx.x] = s[0];
}
__global__ void finish(const float *part, float *out, int m) {
    float v = 0;
    for (int i = 0; i < m; ++i) v += part[i];
    *out = sqrtf(v);
}
"""


class Distance:
    blocks, threads = 128, 256

    def __init__(self):
        module = SourceModule(SOURCE)
        self._partial = module.get_function("partial")
        self._finish = module.get_function("finish")

    def __call__(self, a, b, part, out, n, stream):
        self._partial(
            a, b, part, np.int32(n),
            block=(self.threads, 1, 1), grid=(self.blocks, 1), stream=stream,
        )
        self._finish(
            part, out, np.int32(self.blocks), block=(1, 1, 1), grid=(1, 1), stream=stream
        )
