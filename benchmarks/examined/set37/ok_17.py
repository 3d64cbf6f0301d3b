"""Histograms and gradients of image tiles, computed on two PyCUDA streams per tile."""
from typing import Iterable, Tuple

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

SOURCE = r"""
__global__ void histogram(const unsigned char *tile, unsigned int *bins, int n)
{
    __shared__ unsigned int local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[tile[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

__global__ void edges(const unsigned char *tile, unsigned int *strength, int rows, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (c + 1 >= cols || r + 1 >= rows) return;
    int here = tile[r * cols + c];
    int d = abs(here - tile[r * cols + c + 1]) + abs(here - tile[(r + 1) * cols + c]);
    atomicAdd(&strength[d >> 1], 1u);
}

__global__ void merge(const unsigned int *bins, const unsigned int *strength, float *score, int n)
{
    int i = threadIdx.x;
    score[i] += (float)(bins[i] + strength[i]) / n;
}
"""


class TileStatistics:
    def __init__(self, rows: int, cols: int):
        module = SourceModule(SOURCE)
        self.histogram = module.get_function("histogram")
        self.edges = module.get_function("edges")
        self.merge = module.get_function("merge")
        self.rows, self.cols = rows, cols
        self.first, self.second = drv.Stream(), drv.Stream()
        self.ready = drv.Event()
        self.tile = drv.mem_alloc(rows * cols)
        self.bins, self.strength = drv.mem_alloc(256 * 4), drv.mem_alloc(256 * 4)
        self.score = drv.mem_alloc(256 * 4)
        for buffer in (self.bins, self.strength, self.score):
            drv.memset_d32(buffer, 0, 256)

    def add(self, tile: np.ndarray) -> None:
        rows, cols = np.int32(self.rows), np.int32(self.cols)
        count = np.int32(self.rows * self.cols)
        block = (256, 1, 1)
        drv.memcpy_htod(self.tile, tile)
        self.histogram(self.tile, self.bins, count, block=block, grid=(128, 1), stream=self.first)
        grid = ((self.cols + 255) // 256, self.rows)
        self.edges(self.tile, self.strength, rows, cols, block=block, grid=grid, stream=self.second)
        self.ready.record(self.second)
        self.first.wait_for_event(self.ready)
        self.merge(self.bins, self.strength, self.score, count, block=block, grid=(1, 1), stream=self.first)
        drv.memset_d32(self.bins, 0, 256)
        drv.memset_d32(self.strength, 0, 256)

    def result(self) -> np.ndarray:
        out = np.empty(256, dtype=np.float32)
        drv.memcpy_dtoh(out, self.score)
        return out


def tiles(count: int, shape: Tuple[int, int]) -> Iterable[np.ndarray]:
    rng = np.random.default_rng(9)
    for _ in range(count):
        yield rng.integers(0, 256, shape, dtype=np.uint8)


if __name__ == "__main__":
    statistics = TileStatistics(2048, 2048)
    for tile in tiles(16, (2048, 2048)):
        statistics.add(tile)
    print(statistics.result()[:16])
