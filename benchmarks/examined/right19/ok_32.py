"""Line-scan thresholding over mapped host memory (PyCUDA)."""
import numpy as np
import pycuda.driver as drv
from pycuda.compiler import SourceModule

KERNEL = """
__global__ void threshold(const unsigned char *line, const float *gain,
                          unsigned char *mask, int *edges, int width, float cut)
{
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    int row = blockIdx.x, local = 0;
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        float v = line[row * width + c] * gain[c];
        mask[row * width + c] = v > cut ? 255 : 0;
        local += v > cut;
    }
    atomicAdd(&count, local);
    __syncthreads();
    if (threadIdx.x == 0) edges[row] = count;
}
"""


def mapped(shape, dtype):
    array = drv.pagelocked_zeros(shape, dtype, mem_flags=drv.host_alloc_flags.DEVICEMAP)
    return array, np.intp(array.base.get_device_pointer())


class Strip:
    def __init__(self, rows, width):
        self.line, self.line_ptr = mapped((rows, width), np.uint8)
        self.mask, self.mask_ptr = mapped((rows, width), np.uint8)
        self.edges, self.edges_ptr = mapped((rows,), np.int32)
        self.stream = drv.Stream()
        self.done = drv.Event(drv.event_flags.BLOCKING_SYNC | drv.event_flags.DISABLE_TIMING)
        self.ident = None


class Scanner:
    def __init__(self, rows, width, strips):
        self.rows, self.width = rows, width
        self.fn = SourceModule(KERNEL).get_function("threshold")
        self.gain, self.gain_ptr = mapped((width,), np.float32)
        self.gain[:] = 1.0 + 0.2 * np.cos(np.linspace(0, 6.28, width))
        self.strips = [Strip(rows, width) for _ in range(strips)]
        self.totals = {}

    def reap(self, strip):
        if strip.ident is None:
            return
        strip.done.synchronize()
        self.totals[strip.ident] = (int(strip.edges.sum()), int((strip.mask != 0).sum()))
        strip.ident = None

    def scan(self, ident, picture, cut):
        strip = self.strips[ident % len(self.strips)]
        self.reap(strip)
        np.copyto(strip.line, picture)
        self.fn(strip.line_ptr, self.gain_ptr, strip.mask_ptr, strip.edges_ptr,
                np.int32(self.width), np.float32(cut),
                block=(128, 1, 1), grid=(self.rows, 1), stream=strip.stream)
        strip.done.record(strip.stream)
        strip.ident = ident

    def finish(self):
        for strip in self.strips:
            self.reap(strip)
        return self.totals


def main(count=240):
    drv.init()
    flags = drv.ctx_flags.SCHED_BLOCKING_SYNC | drv.ctx_flags.MAP_HOST
    ctx = drv.Device(0).make_context(flags)
    try:
        scanner = Scanner(64, 4096, strips=4)
        rng = np.random.default_rng(4)
        for ident in range(count):
            picture = rng.integers(0, 256, size=(64, 4096), dtype=np.uint8)
            scanner.scan(ident, picture, cut=120 + ident % 30)
        totals = scanner.finish()
        assert all(edges == lit for edges, lit in totals.values())
        print(len(totals), "strips,", sum(e for e, _ in totals.values()), "pixels")
        ctx.synchronize()
    finally:
        ctx.pop()


if __name__ == "__main__":
    main()
