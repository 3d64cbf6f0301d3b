"""Two-slot frame filter with page-locked staging, PyCUDA."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

SRC = """
__global__ void unsharp(const unsigned char *src, unsigned char *dst,
                        int w, int h, float amount)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float s = 0.f; int n = 0;
    for (int j = -2; j <= 2; ++j)
        for (int i = -2; i <= 2; ++i) {
            int xx = min(max(x + i, 0), w - 1);
            int yy = min(max(y + j, 0), h - 1);
            s += src[yy * w + xx]; ++n;
        }
    float c = src[y * w + x];
    float v = c + amount * (c - s / n);
    dst[y * w + x] = (unsigned char)fminf(fmaxf(v, 0.f), 255.f);
}
"""


class Slot:
    def __init__(self, nbytes, shape):
        self.stream = drv.Stream()
        self.done = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.d_src = drv.mem_alloc(nbytes)
        self.d_dst = drv.mem_alloc(nbytes)
        self.h_out = drv.pagelocked_empty(shape, np.uint8)
        self.tag = None


class FrameFilter:
    BLOCK = (32, 8, 1)

    def __init__(self, width, height, amount=1.5):
        self.w, self.h = width, height
        self.amount = np.float32(amount)
        self.kernel = SourceModule(SRC).get_function("unsharp")
        self.h_in = drv.pagelocked_empty((height, width), np.uint8)
        self.slots = [Slot(self.h_in.nbytes, (height, width)) for _ in range(2)]
        self.grid = ((width + 31) // 32, (height + 7) // 8)
        self.turn = 0

    def _collect(self, slot):
        if slot.tag is None:
            return None
        slot.done.synchronize()
        result = (slot.tag, slot.h_out.copy())
        slot.tag = None
        return result

    def submit(self, tag, frame):
        slot = self.slots[self.turn % 2]
        self.turn += 1
        finished = self._collect(slot)
        np.copyto(self.h_in, frame)
        drv.memcpy_htod_async(slot.d_src, self.h_in, slot.stream)
        self.kernel(slot.d_src, slot.d_dst, np.int32(self.w), np.int32(self.h),
                    self.amount, block=self.BLOCK, grid=self.grid, stream=slot.stream)
        drv.memcpy_dtoh_async(slot.h_out, slot.d_dst, slot.stream)
        slot.done.record(slot.stream)
        slot.tag = tag
        return finished

    def flush(self):
        for k in range(2):
            out = self._collect(self.slots[(self.turn + k) % 2])
            if out is not None:
                yield out


def frames(n, h, w):
    base = np.linspace(0, 255, w, dtype=np.float32)[None, :].repeat(h, axis=0)
    for i in range(n):
        yield i, np.roll(base, 8 * i, axis=1).astype(np.uint8)


def main(n=120, w=3840, h=2160):
    flt = FrameFilter(w, h)
    means = {}
    for tag, frame in frames(n, h, w):
        out = flt.submit(tag, frame)
        if out:
            means[out[0]] = float(out[1].mean())
    for tag, img in flt.flush():
        means[tag] = float(img.mean())
    print(len(means), "frames, mean level", np.mean(list(means.values())))


if __name__ == "__main__":
    main()
