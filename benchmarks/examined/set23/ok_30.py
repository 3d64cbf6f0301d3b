"""Histogram building with uploads overlapped with computation."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

MODULE = SourceModule(
    r"""
__global__ void hist_update(const unsigned char* bins, const float* grad,
                            float* hist, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&hist[bins[i]], grad[i]);
}
"""
)
hist_update = MODULE.get_function("hist_update")


class Slot:
    def __init__(self, n):
        self.host = drv.pagelocked_empty(n, np.uint8)
        self.dev = drv.mem_alloc(n)
        self.uploaded = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.consumed = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.used = False


class HistogramBuilder:
    def __init__(self, n_rows):
        self.n = n_rows
        self.copy_stream = drv.Stream()
        self.comp_stream = drv.Stream()
        self.slots = [Slot(n_rows) for _ in range(2)]
        self.grad = drv.mem_alloc(4 * n_rows)
        self.hist = drv.mem_alloc(4 * 256)

    def set_gradients(self, grad):
        drv.memcpy_htod(self.grad, grad.astype(np.float32))
        drv.Context.synchronize()

    def _upload(self, slot, column):
        if slot.used:
            slot.uploaded.synchronize()
            self.copy_stream.wait_for_event(slot.consumed)
        slot.host[:] = column
        drv.memcpy_htod_async(slot.dev, slot.host, self.copy_stream)
        slot.uploaded.record(self.copy_stream)
        slot.used = True

    def build(self, columns):
        host_hist = drv.pagelocked_empty((len(columns), 256), np.float32)
        grid = ((self.n + 255) // 256, 1)
        for k, column in enumerate(columns):
            slot = self.slots[k % 2]
            self._upload(slot, column)
            self.comp_stream.wait_for_event(slot.uploaded)
            drv.memset_d32_async(self.hist, 0, 256, self.comp_stream)
            hist_update(
                slot.dev, self.grad, self.hist, np.int32(self.n),
                block=(256, 1, 1), grid=grid, stream=self.comp_stream,
            )
            slot.consumed.record(self.comp_stream)
            drv.memcpy_dtoh_async(host_hist[k], self.hist, self.comp_stream)
        self.comp_stream.synchronize()
        return host_hist.copy()


if __name__ == "__main__":
    rows = 1 << 20
    builder = HistogramBuilder(rows)
    builder.set_gradients(np.random.rand(rows))
    cols = [np.random.randint(0, 256, rows).astype(np.uint8) for _ in range(12)]
    print(builder.build(cols).sum(axis=1))
