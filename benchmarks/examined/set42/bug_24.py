"""Tiled convolution of a large raster with PyCUDA."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import pycuda.gpuarray as gpuarray
from pycuda.compiler import SourceModule
from pycuda.tools import DeviceMemoryPool

SRC = r"""
__global__ void blur_accumulate(const float *tile, float *acc, int n, int radius)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0.f;
    for (int k = -radius; k <= radius; ++k) {
        int j = min(max(i + k, 0), n - 1);
        s += tile[j];
    }
    acc[i] += s / (2 * radius + 1);
}
"""


class TileSource:
    """Serves page-locked tiles from an array in memory."""

    def __init__(self, raster: np.ndarray, tile: int):
        self.tile = tile
        self.tiles = []
        for start in range(0, raster.size - tile + 1, tile):
            page = drv.pagelocked_empty(tile, np.float32)
            page[:] = raster[start : start + tile]
            self.tiles.append(page)

    def __iter__(self):
        return iter(self.tiles)

    def __len__(self):
        return len(self.tiles)


class TileFilter:
    def __init__(self, tile: int, radius: int = 64):
        self.tile = tile
        self.radius = np.int32(radius)
        self.pool = DeviceMemoryPool()
        self.kernel = SourceModule(SRC).get_function("blur_accumulate")
        self.upload = drv.Stream()
        self.compute = drv.Stream()
        self.acc = gpuarray.zeros(tile, np.float32)
        drv.Context.synchronize()

    @property
    def launch_shape(self):
        block = 256
        return dict(block=(block, 1, 1), grid=((self.tile + block - 1) // block, 1))

    def push(self, page: np.ndarray):
        dev = gpuarray.GPUArray(page.shape, page.dtype, allocator=self.pool.allocate)
        drv.memcpy_htod_async(dev.gpudata, page, self.upload)
        arrived = drv.Event()
        arrived.record(self.upload)
        self.compute.wait_for_event(arrived)
        self.kernel(
            dev.gpudata,
            self.acc.gpudata,
            np.int32(self.tile),
            self.radius,
            stream=self.compute,
            **self.launch_shape,
        )

    def finish(self) -> np.ndarray:
        self.compute.synchronize()
        return self.acc.get()


def main():
    tile = 1 << 22
    raster = np.random.rand(tile * 8).astype(np.float32)
    source = TileSource(raster, tile)
    filt = TileFilter(tile)
    for page in source:
        filt.push(page)
    result = filt.finish()
    print(len(source), float(result.mean()))


if __name__ == "__main__":
    main()
