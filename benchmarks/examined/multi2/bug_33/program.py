import numpy as np
from pycuda.compiler import SourceModule

SOURCE = r"""
__global__ void lift(const float *x, float *h, float a, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float v = x[i];
        for (int k = 0; k < 200; ++k) v = v * a + 0.5f * sinf(v);
        h[i] = v;
    }
}
__global__ void drop(const float *h, float *y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float l = i > 0 ? h[i - 1] : 0.f, r = i + 1 < n ? h[i + 1] : 0.f;
        y[i] = 0.25f * l + 0.5f * h[i] + 0.25f * r;
    }
}
"""


class Program:
    block = (256, 1, 1)
    grid = (64, 1)

    def __init__(self, gain):
        module = SourceModule(SOURCE)
        self.gain = np.float32(gain)
        self._lift = module.get_function("lift")
        self._drop = module.get_function("drop")

    def enqueue(self, bind, stream):
        n = np.int32(bind.size)
        opts = dict(block=self.block, grid=self.grid, stream=stream)
        self._lift(bind.x.device, bind.hidden, self.gain, n, **opts)
        self._drop(bind.hidden, bind.y.device, n, **opts)
