"""Image pyramid search with pooled PyCUDA memory."""
from collections import deque

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule
from pycuda.tools import DeviceMemoryPool

MOD = SourceModule("""
__global__ void halve(const float *src, float *dst, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < w && y < h)
        dst[y * w + x] = 0.25f * (src[4*y*w + 2*x] + src[4*y*w + 2*x + 1]
                                  + src[(4*y + 2)*w + 2*x] + src[(4*y + 2)*w + 2*x + 1]);
}
__global__ void score(const float *img, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(out, img[i] * img[i]);
}
""")
halve, score = MOD.get_function("halve"), MOD.get_function("score")


class PooledPyramid:
    def __init__(self, size, lanes=3):
        self.size = size
        self.pool = DeviceMemoryPool()
        self.streams = [drv.Stream() for _ in range(lanes)]
        self.retired = deque()
        self.result = drv.to_device(np.zeros(1, np.float32))

    def _retire(self, stream, *blocks):
        event = drv.Event(drv.event_flags.DISABLE_TIMING)
        event.record(stream)
        self.retired.append((event, blocks))
        while len(self.retired) > len(self.streams):
            oldest, held = self.retired.popleft()
            oldest.synchronize()

    def process(self, index, image):
        stream = self.streams[index % len(self.streams)]
        w = h = self.size // 2
        full = self.pool.allocate(image.nbytes)
        half = self.pool.allocate(image.nbytes // 4)
        drv.memcpy_htod(int(full), image)
        halve(full, half, np.int32(w), np.int32(h), block=(128, 1, 1),
              grid=((w + 127) // 128, h), stream=stream)
        score(half, self.result, np.int32(w * h), block=(128, 1, 1),
              grid=((w * h + 127) // 128, 1), stream=stream)
        self._retire(stream, full, half)

    def total(self):
        out = np.empty(1, np.float32)
        drv.Context.synchronize()
        drv.memcpy_dtoh(out, self.result)
        return float(out[0])


def main(size=1024):
    pyramid = PooledPyramid(size)
    for i, path in enumerate(f"tile_{k}.npy" for k in range(60)):
        pyramid.process(i, np.load(path).astype(np.float32))
    print(pyramid.total())


if __name__ == "__main__":
    main()
