"""Median-cut thumbnails with PyCUDA, two frames in flight."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

SOURCE = """
__global__ void halve(const unsigned char *src, unsigned char *dst, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w / 2 && y < h / 2) {
        int i = 2 * y * w + 2 * x;
        dst[y * (w / 2) + x] = (src[i] + src[i + 1] + src[i + w] + src[i + w + 1]) / 4;
    }
}
"""


class Lane:
    """All that belongs to one frame in flight."""

    def __init__(self, width, height):
        self.stream = drv.Stream()
        self.src_host = drv.pagelocked_empty((height, width), np.uint8)
        self.dst_host = np.empty((height // 2, width // 2), np.uint8)
        self.src = drv.mem_alloc(self.src_host.nbytes)
        self.dst = drv.mem_alloc(self.dst_host.nbytes)
        self.pending = False


class Thumbnailer:
    def __init__(self, width, height, lanes=2):
        self.width, self.height = width, height
        self.halve = SourceModule(SOURCE).get_function("halve")
        self.lanes = [Lane(width, height) for _ in range(lanes)]

    def _collect(self, lane):
        drv.memcpy_dtoh(lane.dst_host, lane.dst)
        lane.pending = False
        return lane.dst_host.copy()

    def run(self, frames):
        block = (16, 16, 1)
        grid = ((self.width // 2 + 15) // 16, (self.height // 2 + 15) // 16)
        for i, frame in enumerate(frames):
            lane = self.lanes[i % len(self.lanes)]
            if lane.pending:
                yield self._collect(lane)
            lane.src_host[:] = frame
            drv.memcpy_htod_async(lane.src, lane.src_host, lane.stream)
            self.halve(lane.src, lane.dst, np.int32(self.width), np.int32(self.height),
                       block=block, grid=grid, stream=lane.stream)
            lane.pending = True
        for lane in self.lanes:
            if lane.pending:
                yield self._collect(lane)


def main():
    rng = np.random.default_rng(1)
    frames = (rng.integers(0, 255, (1080, 1920), dtype=np.uint8) for _ in range(30))
    print(sum(int(t.mean()) for t in Thumbnailer(1920, 1080).run(frames)))


if __name__ == "__main__":
    main()
