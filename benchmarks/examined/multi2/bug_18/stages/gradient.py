import math

from numba import cuda

from .base import Stage, register


@cuda.jit
def _sobel(src, dst, gain):
    x, y = cuda.grid(2)
    h, w = src.shape
    if x >= w or y >= h:
        return
    if x == 0 or y == 0 or x == w - 1 or y == h - 1:
        dst[y, x] = 0.0
        return
    gx = (src[y - 1, x + 1] + 2 * src[y, x + 1] + src[y + 1, x + 1]
          - src[y - 1, x - 1] - 2 * src[y, x - 1] - src[y + 1, x - 1])
    gy = (src[y + 1, x - 1] + 2 * src[y + 1, x] + src[y + 1, x + 1]
          - src[y - 1, x - 1] - 2 * src[y - 1, x] - src[y - 1, x + 1])
    dst[y, x] = gain * math.sqrt(gx * gx + gy * gy)


@register
class Gradient(Stage):
    name = "gradient"

    def __init__(self, gain=1.0):
        super().__init__()
        self.gain = gain

    def launch(self, grid, src, dst):
        _sobel[grid, self.threads, self.stream](src, dst, self.gain)
