"""Image pyramid with PyCUDA; level buffers come from a device memory pool."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule
from pycuda.tools import DeviceMemoryPool

SOURCE = """
__global__ void shrink(const float *src, float *dst, int w)
{
    int half = w / 2;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= half * half) return;
    int y = i / half, x = i % half;
    const float *p = src + 2 * y * w + 2 * x;
    dst[i] = 0.25f * (p[0] + p[1] + p[w] + p[w + 1]);
}
"""


class Pyramid:
    """Shrinks square images level by level down to a small one."""

    def __init__(self, width, levels):
        self.width, self.levels = width, levels
        self.pool = DeviceMemoryPool()
        self.stream = drv.Stream()
        self.shrink = SourceModule(SOURCE).get_function("shrink")
        small = width >> levels
        self.image = drv.pagelocked_empty((width, width), np.float32)
        self.top = drv.pagelocked_empty((small, small), np.float32)

    def __call__(self, image):
        self.image[:] = image
        width = self.width
        src = self.pool.allocate(4 * width * width)
        drv.memcpy_htod_async(int(src), self.image, self.stream)
        for _ in range(self.levels):
            half = width // 2
            dst = self.pool.allocate(4 * half * half)
            self.shrink(np.intp(int(src)), np.intp(int(dst)), np.int32(width),
                        block=(256, 1, 1), grid=((half * half + 255) // 256, 1),
                        stream=self.stream)
            src, width = dst, half
        drv.memcpy_dtoh_async(self.top, int(src), self.stream)
        self.stream.synchronize()
        return self.top.copy()


def main():
    rng = np.random.default_rng(0)
    pyramid = Pyramid(4096, 6)
    for _ in range(20):
        print(float(pyramid(rng.random((4096, 4096), dtype=np.float32)).mean()))


if __name__ == "__main__":
    main()
