"""Two-slot PyCUDA pipeline: blur on one stream, write-back on another."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

MOD = SourceModule(r"""
__global__ void blur(const float *src, float *dst, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float acc = 0.0f;
    for (int d = -4; d <= 4; ++d) {
        int xx = min(max(x + d, 0), w - 1);
        acc += src[y * w + xx];
    }
    dst[y * w + x] = acc / 9.0f;
}
""")


class Slot:
    def __init__(self, nbytes):
        self.src = drv.mem_alloc(nbytes)
        self.dst = drv.mem_alloc(nbytes)
        self.full = drv.Event()
        self.free = None


class Pipeline:
    def __init__(self, width, height, slots=2):
        self.w, self.h = width, height
        self.nbytes = width * height * 4
        self.blur = MOD.get_function("blur")
        self.work = drv.Stream()
        self.out = drv.Stream()
        self.slots = [Slot(self.nbytes) for _ in range(slots)]

    def acquire(self, k):
        slot = self.slots[k % len(self.slots)]
        if slot.free is not None:
            slot.free.synchronize()
        return slot

    def run(self, images, results):
        grid = ((self.w + 15) // 16, (self.h + 15) // 16)
        for k in range(len(images)):
            slot = self.acquire(k)
            drv.memcpy_htod_async(slot.src, images[k], self.work)
            self.blur(slot.src, slot.dst, np.int32(self.w), np.int32(self.h),
                      block=(16, 16, 1), grid=grid, stream=self.work)
            slot.full.record(self.work)
            self.out.wait_for_event(slot.full)
            drv.memcpy_dtoh_async(results[k], slot.dst, self.out)
            slot.free = drv.Event()
            slot.free.record(self.out)
        self.out.synchronize()


def main(count=16, width=1024, height=768):
    images = drv.pagelocked_empty((count, height, width), np.float32)
    images[...] = np.arange(count, dtype=np.float32)[:, None, None]
    results = drv.pagelocked_empty((count, height, width), np.float32)
    Pipeline(width, height).run(images, results)
    print("max error", float(np.abs(results - images).max()))


if __name__ == "__main__":
    main()
