"""Histogram equalization table built with cuda.core."""
import numpy as np
from cuda.core.experimental import (
    Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch)

CODE = """
extern "C" __global__ void count(const unsigned char *pixels, unsigned *bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(bins + pixels[i], 1u);
}
"""


class Histogrammer:
    """Counts the grey values of images of one size."""

    def __init__(self, n):
        self.n = n
        self.dev = Device()
        self.dev.set_current()
        self.stream = self.dev.create_stream()
        cc = self.dev.compute_capability
        options = ProgramOptions(std="c++17", arch=f"sm_{cc.major}{cc.minor}")
        self.count = Program(CODE, "c++", options).compile("cubin").get_kernel("count")
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)
        host = LegacyPinnedMemoryResource()
        self.h_pixels = host.allocate(n)
        self.h_bins = host.allocate(4 * 256)
        self.pixels_view = np.from_dlpack(self.h_pixels).view(np.uint8)
        self.bins_view = np.from_dlpack(self.h_bins).view(np.uint32)
        self.d_pixels = self.dev.memory_resource.allocate(n, stream=self.stream)
        self.d_bins = self.dev.memory_resource.allocate(4 * 256, stream=self.stream)
        self.stream.sync()

    def table(self, image):
        self.pixels_view[:] = image.ravel()
        self.d_bins.fill(0, stream=self.dev.default_stream)
        self.h_pixels.copy_to(self.d_pixels, stream=self.dev.default_stream)
        launch(self.stream, self.config, self.count, self.d_pixels, self.d_bins, np.int32(self.n))
        self.d_bins.copy_to(self.h_bins, stream=self.stream)
        self.stream.sync()
        cdf = np.cumsum(self.bins_view.astype(np.float64))
        return np.round(255.0 * cdf / cdf[-1]).astype(np.uint8)


def main():
    rng = np.random.default_rng(5)
    shape = (3000, 4000)
    histogrammer = Histogrammer(shape[0] * shape[1])
    for _ in range(25):
        image = rng.normal(110, 30, shape).clip(0, 255).astype(np.uint8)
        print(histogrammer.table(image)[[64, 128, 192]])


if __name__ == "__main__":
    main()
