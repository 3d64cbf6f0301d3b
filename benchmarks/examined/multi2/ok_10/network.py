import numpy as np
from pycuda.compiler import SourceModule

SOURCE = r"""
__global__ void dense(const float* x, const float* w, float* y, int n, int m) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= m) return;
    float s = 0.f;
    for (int i = 0; i < n; ++i) s += x[i] * w[i * m + j];
    y[j] = tanhf(s);
}
"""


class Dense:
    def __init__(self, buffers, x, w, y, n, m):
        self.fn = SourceModule(SOURCE).get_function("dense")
        self.args = (buffers[x].dev, buffers[w].dev, buffers[y].dev, np.int32(n), np.int32(m))
        self.grid = ((m + 127) // 128, 1)

    def __call__(self, stream):
        self.fn(*self.args, block=(128, 1, 1), grid=self.grid, stream=stream)


class Chain:
    """Layers run one behind the other on the stream they are given."""

    def __init__(self, *layers):
        self.layers = layers

    def __call__(self, stream):
        for layer in self.layers:
            layer(stream)

    def __len__(self):
        return len(self.layers)
