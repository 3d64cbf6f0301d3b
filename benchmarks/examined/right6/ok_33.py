import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

mod = SourceModule("""
__global__ void gamma_lut(const unsigned char *src, unsigned char *dst, const unsigned char *lut, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = lut[src[i]];
}
""")
gamma_lut = mod.get_function("gamma_lut")


class Slot:
    def __init__(self, n):
        self.h_src = drv.pagelocked_empty(n, np.uint8)
        self.h_dst = drv.pagelocked_empty(n, np.uint8)
        self.d_src = drv.mem_alloc(n)
        self.d_dst = drv.mem_alloc(n)
        self.uploaded = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.computed = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.downloaded = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.busy = False


class GammaPipeline:
    def __init__(self, n, gamma, depth=2):
        self.n = n
        lut = (255 * (np.arange(256) / 255.0) ** gamma).astype(np.uint8)
        self.lut = drv.to_device(lut)
        self.h2d, self.exe, self.d2h = drv.Stream(), drv.Stream(), drv.Stream()
        self.slots = [Slot(n) for _ in range(depth)]

    def _submit(self, slot, frame):
        slot.h_src[:] = frame
        drv.memcpy_htod_async(slot.d_src, slot.h_src, self.h2d)
        slot.uploaded.record(self.h2d)
        self.exe.wait_for_event(slot.uploaded)
        gamma_lut(slot.d_src, slot.d_dst, self.lut, np.int32(self.n),
                  block=(256, 1, 1), grid=((self.n + 255) // 256, 1), stream=self.exe)
        slot.computed.record(self.exe)
        self.d2h.wait_for_event(slot.computed)
        drv.memcpy_dtoh_async(slot.h_dst, slot.d_dst, self.d2h)
        slot.downloaded.record(self.d2h)
        slot.busy = True

    def _finish(self, slot):
        slot.downloaded.synchronize()
        slot.busy = False
        return slot.h_dst.copy()

    def __call__(self, frames):
        k = 0
        for k, frame in enumerate(frames):
            slot = self.slots[k % len(self.slots)]
            if slot.busy:
                yield self._finish(slot)
            self._submit(slot, frame)
        for j in range(1, len(self.slots) + 1):
            slot = self.slots[(k + j) % len(self.slots)]
            if slot.busy:
                yield self._finish(slot)


if __name__ == "__main__":
    size = 640 * 480
    pipe = GammaPipeline(size, 2.2)
    source = (np.full(size, v, np.uint8) for v in range(0, 250, 25))
    print([int(out[0]) for out in pipe(source)])
