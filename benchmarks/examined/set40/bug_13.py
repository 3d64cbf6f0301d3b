"""Tile pipeline on cuda.core: one stream produces tiles, another one consumes them."""
import ctypes

import numpy as np
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void make_tile(float* tile, int n, int seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) tile[i] = (float)((i * 1103515245u + seed) & 0xffff) / 65536.0f;
}
extern "C" __global__ void fold_tile(const float* tile, float* acc, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = tile[i];
    for (int r = 0; r < rounds; ++r) v = v * 0.999f + tile[(i + r) % n] * 0.001f;
    acc[i] += v;
}
"""


class TileKernels:
    def __init__(self, dev):
        opts = ProgramOptions(std="c++17", arch=f"sm_{dev.arch}")
        mod = Program(SOURCE, code_type="c++", options=opts).compile(
            "cubin", name_expressions=("make_tile", "fold_tile")
        )
        self.make = mod.get_kernel("make_tile")
        self.fold = mod.get_kernel("fold_tile")


class TilePipeline:
    def __init__(self, n, rounds=64):
        self.dev = Device()
        self.dev.set_current()
        self.kernels = TileKernels(self.dev)
        self.n, self.rounds = n, rounds
        self.produce = self.dev.create_stream()
        self.consume = self.dev.create_stream()
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.acc = self.dev.allocate(n * 4, stream=self.consume)
        self._clear_acc()

    def _clear_acc(self):
        tmp = np.zeros(self.n, dtype=np.float32)
        from cuda.bindings import runtime as rt

        rt.cudaMemcpyAsync(int(self.acc.handle), tmp.ctypes.data, tmp.nbytes,
                           rt.cudaMemcpyKind.cudaMemcpyHostToDevice, int(self.consume.handle))
        self.consume.sync()

    def _new_tile(self, seed):
        tile = self.dev.allocate(self.n * 4, stream=self.produce)
        launch(self.produce, self.config, self.kernels.make,
               int(tile.handle), ctypes.c_int(self.n), ctypes.c_int(seed))
        return tile

    def _fold(self, tile):
        self.consume.wait(self.produce)
        launch(self.consume, self.config, self.kernels.fold,
               int(tile.handle), int(self.acc.handle), ctypes.c_int(self.n), ctypes.c_int(self.rounds))

    def run(self, tiles):
        for seed in range(tiles):
            tile = self._new_tile(seed)
            self._fold(tile)
            tile.close(self.produce)

    def result(self):
        from cuda.bindings import runtime as rt

        out = np.empty(self.n, dtype=np.float32)
        rt.cudaMemcpyAsync(out.ctypes.data, int(self.acc.handle), out.nbytes,
                           rt.cudaMemcpyKind.cudaMemcpyDeviceToHost, int(self.consume.handle))
        self.consume.sync()
        return out

    def close(self):
        self.acc.close(self.consume)
        self.consume.sync()
        self.produce.sync()
        self.consume.close()
        self.produce.close()


def main():
    pipe = TilePipeline(1 << 22)
    pipe.run(100)
    print("sum", float(pipe.result().sum()))
    pipe.close()


if __name__ == "__main__":
    main()
