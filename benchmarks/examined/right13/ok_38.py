"""Batched Mandelbrot strips: kernels on one PyCUDA stream, downloads on another."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

SOURCE = """
__global__ void strip(int *out, int width, int rows, float x0, float y0, float step, int limit)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c >= width || r >= rows) return;
    float cx = x0 + c * step, cy = y0 + r * step, x = 0.f, y = 0.f;
    int n = 0;
    while (n < limit && x * x + y * y < 4.f) {
        float t = x * x - y * y + cx;
        y = 2.f * x * y + cy;
        x = t;
        ++n;
    }
    out[r * width + c] = n;
}
"""


class StripRenderer:
    def __init__(self, width, rows, buffers=2):
        self.width, self.rows = width, rows
        module = SourceModule(SOURCE)
        self.kernel = module.get_function("strip")
        self.kernel.prepare("Piifffi")
        self.draw, self.fetch = drv.Stream(), drv.Stream()
        self.device = [drv.mem_alloc(width * rows * 4) for _ in range(buffers)]
        self.drawn = [drv.Event(drv.event_flags.DISABLE_TIMING) for _ in range(buffers)]
        self.fetched = [drv.Event(drv.event_flags.DISABLE_TIMING) for _ in range(buffers)]
        self.grid = ((width + 31) // 32, (rows + 7) // 8)

    def render(self, x0, y0, step, height, limit=500):
        image = drv.pagelocked_zeros((height, self.width), np.int32)
        try:
            for k, top in enumerate(range(0, height, self.rows)):
                slot = k % len(self.device)
                rows = min(self.rows, height - top)
                self.draw.wait_for_event(self.fetched[slot])
                self.kernel.prepared_async_call(
                    self.grid, (32, 8, 1), self.draw, self.device[slot],
                    self.width, rows, x0, y0 + top * step, step, limit,
                )
                self.drawn[slot].record(self.draw)
                self.fetch.wait_for_event(self.drawn[slot])
                drv.memcpy_dtoh_async(image[top:top + rows], self.device[slot], self.fetch)
                self.fetched[slot].record(self.fetch)
        finally:
            self.fetch.synchronize()
        return image


def zoom(renderer, frames, height):
    depth = []
    step = 3.0 / renderer.width
    for _ in range(frames):
        image = renderer.render(-0.745 - step * renderer.width / 2, 0.11 - step * height / 2,
                                step, height)
        depth.append(float(image.mean()))
        step *= 0.6
    return depth


if __name__ == "__main__":
    print(zoom(StripRenderer(1024, 100), 6, 768))
