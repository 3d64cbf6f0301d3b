import numpy as np
from pycuda.compiler import SourceModule

from .memory import scratch

_SOURCE = r"""
__device__ int clampi(int v, int hi) { return v < 0 ? 0 : (v > hi ? hi : v); }

__global__ void rows(const float* in, float* out, int w, int h, int r) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float s = 0.f;
    for (int k = -r; k <= r; ++k) s += in[y * w + clampi(x + k, w - 1)];
    out[y * w + x] = s / (2 * r + 1);
}

__global__ void cols(const float* in, float* out, int w, int h, int r) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float s = 0.f;
    for (int k = -r; k <= r; ++k) s += in[clampi(y + k, h - 1) * w + x];
    out[y * w + x] = s / (2 * r + 1);
}
"""


class Denoiser:
    block = (32, 8, 1)

    def __init__(self, radius=7):
        module = SourceModule(_SOURCE)
        self.rows = module.get_function("rows")
        self.cols = module.get_function("cols")
        self.radius = np.int32(radius)

    def apply(self, src, dst, width, height, stream):
        grid = ((width + 31) // 32, (height + 7) // 8, 1)
        w, h = np.int32(width), np.int32(height)
        between = scratch(width * height * 4)
        self.rows(src, between, w, h, self.radius, block=self.block, grid=grid, stream=stream)
        self.cols(between, dst, w, h, self.radius, block=self.block, grid=grid, stream=stream)
