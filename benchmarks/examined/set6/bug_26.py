import numpy as np
from numba import cuda


@cuda.jit
def histogram_kernel(data, bins, lo, inv_width):
    i = cuda.grid(1)
    stride = cuda.gridsize(1)
    for j in range(i, data.size, stride):
        b = int((data[j] - lo) * inv_width)
        if 0 <= b < bins.size:
            cuda.atomic.add(bins, b, 1)


@cuda.jit
def clear_kernel(bins):
    i = cuda.grid(1)
    if i < bins.size:
        bins[i] = 0


class StreamHistogram:
    def __init__(self, nbins: int, lo: float, hi: float, block_size: int = 1 << 20):
        self.nbins = nbins
        self.lo = lo
        self.inv_width = nbins / (hi - lo)
        self.block_size = block_size
        self.stream = cuda.stream()
        self.d_bins = cuda.device_array(nbins, dtype=np.int32)
        self.h_bins = cuda.pinned_array(nbins, dtype=np.int32)
        self.totals = np.zeros(nbins, dtype=np.int64)

    def _launch(self, d_data) -> None:
        threads = 256
        clear_kernel[(self.nbins + threads - 1) // threads, threads, self.stream](self.d_bins)
        blocks = min(1024, (d_data.size + threads - 1) // threads)
        histogram_kernel[blocks, threads, self.stream](
            d_data, self.d_bins, self.lo, self.inv_width
        )

    def add(self, samples: np.ndarray) -> None:
        for start in range(0, samples.size, self.block_size):
            block = samples[start : start + self.block_size]
            d_data = cuda.to_device(block, stream=self.stream)
            self._launch(d_data)
            self.d_bins.copy_to_host(self.h_bins, stream=self.stream)
            self.totals += self.h_bins

    def density(self) -> np.ndarray:
        return self.totals / max(1, self.totals.sum())


def column_histograms(columns, nbins=256):
    result = {}
    for name, values in columns.items():
        hist = StreamHistogram(nbins, float(values.min()), float(values.max()) + 1e-6)
        hist.add(np.ascontiguousarray(values, dtype=np.float32))
        result[name] = hist.density()
    return result
