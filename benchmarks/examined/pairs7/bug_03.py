"""Loads detector panels into device memory through a page-locked pool."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule
from pycuda.tools import PageLockedMemoryPool

PANEL = (1024, 1024)

mod = SourceModule("""
__global__ void subtract(float *x, const float *dark, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] -= dark[i];
}
""")
subtract = mod.get_function("subtract")


class PanelLoader:
    def __init__(self, panels):
        self.pool = PageLockedMemoryPool()
        self.stream = drv.Stream()
        nbytes = int(np.prod(PANEL)) * 4
        self.panels = [drv.mem_alloc(nbytes) for _ in range(panels)]
        self.dark = drv.mem_alloc(nbytes)

    def set_dark(self, dark):
        drv.memcpy_htod(self.dark, np.ascontiguousarray(dark, np.float32))

    def load(self, index, panel):
        staging = self.pool.allocate(PANEL, np.float32)
        staging[...] = panel
        drv.memcpy_htod_async(self.panels[index], staging, self.stream)
        n = staging.size
        subtract(self.panels[index], self.dark, np.int32(n), block=(256, 1, 1),
                 grid=((n + 255) // 256, 1), stream=self.stream)

    def fetch(self, index):
        self.stream.synchronize()
        out = np.empty(PANEL, np.float32)
        drv.memcpy_dtoh(out, self.panels[index])
        return out


def main(panels=16):
    rng = np.random.default_rng(11)
    loader = PanelLoader(panels)
    loader.set_dark(np.full(PANEL, 0.1, np.float32))
    for index in range(panels):
        loader.load(index, rng.random(PANEL, dtype=np.float32))
    print([float(loader.fetch(index).mean()) for index in range(panels)])


if __name__ == "__main__":
    main()
