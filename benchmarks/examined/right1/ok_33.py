"""Histogram pipeline: per-half work on created streams, merging on the default stream."""
import numpy as np
from numba import cuda

BINS = 256


@cuda.jit
def clear(hist):
    i = cuda.grid(1)
    if i < hist.size:
        hist[i] = 0


@cuda.jit
def histogram(pixels, hist):
    start = cuda.grid(1)
    for i in range(start, pixels.size, cuda.gridsize(1)):
        cuda.atomic.add(hist, pixels[i], 1)


@cuda.jit
def merge(left, right, total):
    i = cuda.grid(1)
    if i < total.size:
        total[i] += left[i] + right[i]


class HalvesHistogram:
    def __init__(self, pixels_per_half):
        self.streams = [cuda.stream() for _ in range(2)]
        self.pixels = [cuda.device_array(pixels_per_half, np.uint8) for _ in range(2)]
        self.partial = [cuda.device_array(BINS, np.int32) for _ in range(2)]
        self.total = cuda.to_device(np.zeros(BINS, np.int64))

    def add(self, image):
        halves = np.split(image.ravel(), 2)
        for stream, dev, hist, half in zip(self.streams, self.pixels, self.partial, halves):
            dev.copy_to_device(half, stream=stream)
            clear[1, BINS, stream](hist)
            histogram[64, 128, stream](dev, hist)
        merge[1, BINS](self.partial[0], self.partial[1], self.total)

    def result(self):
        return self.total.copy_to_host()


def main():
    rng = np.random.default_rng(0)
    shape = (1024, 1024)
    hist = HalvesHistogram(shape[0] * shape[1] // 2)
    expected = np.zeros(BINS, np.int64)
    for _ in range(30):
        image = rng.integers(0, BINS, shape, dtype=np.uint8)
        hist.add(image)
        expected += np.bincount(image.ravel(), minlength=BINS)
    assert np.array_equal(hist.result(), expected)


if __name__ == "__main__":
    main()
