from numba import cuda

from .base import Stage, register


@cuda.jit
def _box(src, dst, radius):
    x, y = cuda.grid(2)
    h, w = src.shape
    if x >= w or y >= h:
        return
    total = 0.0
    n = 0
    for j in range(max(0, y - radius), min(h, y + radius + 1)):
        for i in range(max(0, x - radius), min(w, x + radius + 1)):
            total += src[j, i]
            n += 1
    dst[y, x] = total / n


@register
class Blur(Stage):
    name = "blur"

    def __init__(self, radius=4):
        super().__init__()
        self.radius = radius

    def launch(self, grid, src, dst):
        _box[grid, self.threads, self.stream](src, dst, self.radius)
