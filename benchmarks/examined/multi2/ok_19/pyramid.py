import numpy as np
from pycuda.compiler import SourceModule

import pools

_SOURCE = r"""
__global__ void half(const float* in, float* out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w / 2 || y >= h / 2) return;
    const float* p = in + 2 * y * w + 2 * x;
    out[y * (w / 2) + x] = 0.25f * (p[0] + p[1] + p[w] + p[w + 1]);
}
"""


class Pyramid:
    def __init__(self, levels):
        self.levels = levels
        self.half = SourceModule(_SOURCE).get_function("half")

    def reduce(self, src, width, height, target, stream):
        allocate = pools.shared.of(stream).allocate
        for level in range(self.levels):
            w, h = width // 2, height // 2
            last = level == self.levels - 1
            out = target if last else allocate(w * h * 4)
            self.half(src, out, np.int32(width), np.int32(height),
                      block=(32, 8, 1), grid=((w + 31) // 32, (h + 7) // 8, 1), stream=stream)
            src, width, height = out, w, h

    def sizes(self, width, height):
        out = []
        for _ in range(self.levels):
            width, height = width // 2, height // 2
            out.append((width, height))
        return out
