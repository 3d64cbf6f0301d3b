"""Sparse volume rendering: grid buffers are shared by several consumers and freed stream-ordered."""
import cupy as cp
import cupyx
import numpy as np
from cupy.cuda import runtime

_march = cp.ElementwiseKernel(
    "raw float32 grid, int64 nvox, int64 width",
    "float32 pixel",
    """
    float t = 1.0f, c = 0.0f;
    for (int s = 0; s < 512; ++s) {
        long long v = (i * 2654435761LL + s * (1 + i % width)) % nvox;
        float a = grid[v] * 0.01f;
        c += t * a; t *= 1.0f - a;
    }
    pixel = c;
    """,
    "ray_march",
)

_histogram = cp.ElementwiseKernel(
    "float32 value, int32 bins", "raw int32 hist",
    "atomicAdd(&hist[min(bins - 1, (int)(value * bins))], 1)",
    "value_histogram",
)


class DeviceBuffer:
    """Stream-ordered allocation; one event tracks the uses on other streams."""

    def __init__(self, nbytes, stream):
        self.nbytes = nbytes
        self.stream = stream
        self.ptr = runtime.mallocAsync(nbytes, stream.ptr)
        self.event = cp.cuda.Event(disable_timing=True)

    def view(self, dtype):
        mem = cp.cuda.UnownedMemory(self.ptr, self.nbytes, self)
        n = self.nbytes // np.dtype(dtype).itemsize
        return cp.ndarray((n,), dtype, cp.cuda.MemoryPointer(mem, 0))

    def device_upload(self, host):
        runtime.memcpyAsync(
            self.ptr, host.ctypes.data, self.nbytes, runtime.memcpyHostToDevice, self.stream.ptr
        )
        self.record_use(self.stream)

    def order_after_upload(self, stream):
        stream.wait_event(self.event)

    def record_use(self, stream):
        self.event.record(stream)

    def clear(self):
        if self.ptr:
            self.stream.wait_event(self.event)
            runtime.freeAsync(self.ptr, self.stream.ptr)
            self.ptr = 0


class VolumeViewer:
    def __init__(self, nvox, width=1920, height=1080, bins=256):
        self.nvox, self.width, self.bins = nvox, width, bins
        self.io = cp.cuda.Stream(non_blocking=True)
        self.render = cp.cuda.Stream(non_blocking=True)
        self.stats = cp.cuda.Stream(non_blocking=True)
        self.staging = [cupyx.empty_pinned(nvox, dtype=np.float32) for _ in range(2)]
        self.staged = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self.image = cp.zeros(width * height, dtype=cp.float32)
        self.hist = cp.zeros(bins, dtype=cp.int32)
        cp.cuda.Device().synchronize()
        self.frame = 0

    def load(self, values):
        slot = self.frame % 2
        self.frame += 1
        self.staged[slot].synchronize()
        self.staging[slot][...] = values
        grid = DeviceBuffer(4 * self.nvox, self.io)
        grid.device_upload(self.staging[slot])
        self.staged[slot].record(self.io)
        return grid

    def draw(self, values):
        grid = self.load(values)
        grid.order_after_upload(self.render)
        grid.order_after_upload(self.stats)
        voxels = grid.view(np.float32)
        with self.render:
            _march(voxels, self.nvox, self.width, self.image)
        grid.record_use(self.render)
        with self.stats:
            self.hist.fill(0)
            _histogram(voxels, self.bins, self.hist)
        grid.record_use(self.stats)
        del voxels
        grid.clear()

    def finish(self):
        self.render.synchronize()
        self.stats.synchronize()
        return float(self.image.sum()), self.hist.get()


def main(nvox=1 << 22):
    rng = np.random.default_rng(3)
    viewer = VolumeViewer(nvox)
    for _ in range(60):
        viewer.draw(rng.random(nvox, dtype=np.float32))
    total, hist = viewer.finish()
    print(total, int(hist.sum()))


if __name__ == "__main__":
    main()
