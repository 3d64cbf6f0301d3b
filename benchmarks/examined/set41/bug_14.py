"""Tile pipeline on cuda.core: one stream renders tiles, another folds them."""
import numpy as np
from cuda.core import (
    Device,
    DeviceMemoryResource,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

SOURCE = r"""
extern "C" __global__ void render(float* tile, int n, int seed) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        tile[i] = __sinf(0.001f * (i + seed));
}
extern "C" __global__ void fold(const float* tile, float* acc, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        acc[i] += tile[i] * tile[i];
}
"""


class Kernels:
    def __init__(self, dev):
        opts = ProgramOptions(std="c++17", arch=f"sm_{dev.arch}")
        module = Program(SOURCE, code_type="c++", options=opts).compile("cubin")
        self.render = module.get_kernel("render")
        self.fold = module.get_kernel("fold")
        self.config = LaunchConfig(grid=(256,), block=(256,))


class TileFolder:
    def __init__(self, elements):
        self.dev = Device()
        self.dev.set_current()
        self.kernels = Kernels(self.dev)
        self.elements = elements
        self.nbytes = elements * 4
        self.mr = DeviceMemoryResource(self.dev)
        self.pinned = LegacyPinnedMemoryResource()
        self.render_stream = self.dev.create_stream()
        self.fold_stream = self.dev.create_stream()
        self.acc = self.mr.allocate(self.nbytes, stream=self.fold_stream)
        self.acc.fill(0, stream=self.fold_stream)

    def _render(self, seed):
        tile = self.mr.allocate(self.nbytes, stream=self.render_stream)
        launch(
            self.render_stream, self.kernels.config, self.kernels.render,
            tile, np.int32(self.elements), np.int32(seed),
        )
        return tile, self.render_stream.record()

    def _fold(self, tile, ready):
        self.fold_stream.wait(ready)
        launch(
            self.fold_stream, self.kernels.config, self.kernels.fold,
            tile, self.acc, np.int32(self.elements),
        )

    def add(self, seed):
        tile, ready = self._render(seed)
        try:
            self._fold(tile, ready)
        finally:
            tile.close(self.render_stream)

    def result(self):
        out = self.pinned.allocate(self.nbytes)
        self.acc.copy_to(out, stream=self.fold_stream)
        self.fold_stream.sync()
        return np.from_dlpack(out).view(np.float32).copy()

    def close(self):
        self.acc.close(self.fold_stream)
        self.fold_stream.sync()
        self.render_stream.sync()


def main():
    folder = TileFolder(1 << 24)
    for seed in range(100):
        folder.add(seed)
    values = folder.result()
    folder.close()
    print(values[:4])


if __name__ == "__main__":
    main()
