"""Per-band histograms and equalization tables."""
from __future__ import annotations

import cupy as cp
import numpy as np

_histogram = cp.RawKernel(
    r"""
extern "C" __global__
void histogram(const unsigned char* x, unsigned int* bins, int n) {
    __shared__ unsigned int local[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) local[b] = 0;
    __syncthreads();
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += gridDim.x * blockDim.x)
        atomicAdd(&local[x[k]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(&bins[b], local[b]);
}
""",
    "histogram",
)


class BandHistogram:
    def __init__(self, bands: int, pixels: int) -> None:
        self.bands = bands
        self.pixels = pixels
        self.streams = [cp.cuda.Stream(null=False, non_blocking=False) for _ in range(bands)]
        with cp.cuda.Stream.null:
            self.data = cp.empty((bands, pixels), dtype=cp.uint8)
            self.bins = cp.zeros((bands, 256), dtype=cp.uint32)
            self.cdf = cp.zeros((bands, 256), dtype=cp.float64)

    def load(self, image: np.ndarray) -> None:
        image = np.ascontiguousarray(image, dtype=np.uint8).reshape(self.bands, self.pixels)
        with cp.cuda.Stream.null:
            self.data.set(image)
            self.bins.fill(0)
            cp.cuda.Stream.null.synchronize()

    def accumulate(self) -> None:
        n = cp.int32(self.pixels)
        for band, stream in enumerate(self.streams):
            with stream:
                _histogram((64,), (256,), (self.data[band], self.bins[band], n))

    def finish(self) -> np.ndarray:
        with cp.cuda.Stream.null:
            counts = self.bins.astype(cp.float64)
            self.cdf[...] = cp.cumsum(counts, axis=1)
            self.cdf /= cp.maximum(self.cdf[:, -1:], 1.0)
            out = self.cdf.get()
            cp.cuda.Stream.null.synchronize()
        return out


def equalization_tables(images: list[np.ndarray]) -> list[np.ndarray]:
    if not images:
        return []
    bands = images[0].shape[0]
    pixels = images[0][0].size
    histogram = BandHistogram(bands, pixels)
    tables = []
    for image in images:
        histogram.load(image)
        histogram.accumulate()
        tables.append((histogram.finish() * 255).astype(np.uint8))
    return tables


def main() -> None:
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (4, 512, 512), dtype=np.uint8) for _ in range(6)]
    for table in equalization_tables(images):
        print(table[:, 128])


if __name__ == "__main__":
    main()
