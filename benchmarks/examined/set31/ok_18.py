"""Two slot upload pipeline on PyCUDA."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

SRC = r"""
__global__ void accumulate(const unsigned char *src, float *acc, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) acc[i] = 0.9f * acc[i] + 0.1f * src[i];
}
"""
NO_TIMING = drv.event_flags.DISABLE_TIMING


class Slot:
    def __init__(self, n):
        self.host = drv.pagelocked_empty(n, np.uint8)
        self.dev = drv.mem_alloc(n)
        self.uploaded = drv.Event(NO_TIMING)
        self.consumed = drv.Event(NO_TIMING)


class Background:
    def __init__(self, height, width):
        self.n = height * width
        self.kernel = SourceModule(SRC).get_function("accumulate")
        self.copy_stream = drv.Stream(1)
        self.exec_stream = drv.Stream(1)
        self.slots = [Slot(self.n), Slot(self.n)]
        self.acc = drv.mem_alloc(self.n * 4)
        drv.memset_d32(self.acc, 0, self.n)
        drv.Context.synchronize()
        self.turn = 0

    def feed(self, image):
        slot = self.slots[self.turn]
        self.turn ^= 1
        slot.uploaded.synchronize()
        np.copyto(slot.host, image.ravel())
        self.copy_stream.wait_for_event(slot.consumed)
        drv.memcpy_htod_async(slot.dev, slot.host, self.copy_stream)
        slot.uploaded.record(self.copy_stream)
        self.exec_stream.wait_for_event(slot.uploaded)
        self.kernel(slot.dev, self.acc, np.int32(self.n), block=(256, 1, 1),
                    grid=((self.n + 255) // 256, 1), stream=self.exec_stream)
        slot.consumed.record(self.exec_stream)

    def snapshot(self):
        out = drv.pagelocked_empty(self.n, np.float32)
        drv.memcpy_dtoh_async(out, self.acc, self.exec_stream)
        self.exec_stream.synchronize()
        return out


def main():
    bg = Background(1080, 1920)
    rng = np.random.default_rng(0)
    for _ in range(60):
        bg.feed(rng.integers(0, 256, (1080, 1920), dtype=np.uint8))
    print(float(bg.snapshot().mean()))


if __name__ == "__main__":
    main()
