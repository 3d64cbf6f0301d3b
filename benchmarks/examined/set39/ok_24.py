"""Histogram of residuals: two kernels on their own streams, plain copies."""
import numpy as np
from numba import cuda

BINS = 64


@cuda.jit
def residual(a, b, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        out[i] = abs(a[i] - b[i])


@cuda.jit
def bin_up(values, scale, hist):
    i = cuda.grid(1)
    if i < values.shape[0]:
        k = int(values[i] * scale)
        cuda.atomic.add(hist, min(k, BINS - 1), 1)


class ResidualHistogram:
    def __init__(self, n):
        self.n = n
        self.left = cuda.stream()
        self.right = cuda.stream()
        self.d_a = cuda.device_array(n, np.float32)
        self.d_b = cuda.device_array(n, np.float32)
        self.d_r = cuda.device_array((2, n), np.float32)
        self.d_h = cuda.device_array((2, BINS), np.int32)
        self.grid = (n + 255) // 256

    def feed(self, a, b):
        self.d_a.copy_to_device(a)
        self.d_b.copy_to_device(b)
        self.d_h.copy_to_device(np.zeros((2, BINS), np.int32))

    def launch(self):
        g = self.grid
        residual[g, 256, self.left](self.d_a, self.d_b, self.d_r[0])
        bin_up[g, 256, self.left](self.d_r[0], np.float32(BINS), self.d_h[0])
        residual[g, 256, self.right](self.d_b, self.d_b, self.d_r[1])
        bin_up[g, 256, self.right](self.d_r[1], np.float32(BINS), self.d_h[1])

    def counts(self):
        return self.d_h.copy_to_host()


def main(n=1 << 20, rounds=4):
    rng = np.random.default_rng(3)
    rh = ResidualHistogram(n)
    total = np.zeros((2, BINS), np.int64)
    for _ in range(rounds):
        a = rng.random(n, dtype=np.float32)
        b = rng.random(n, dtype=np.float32)
        rh.feed(a, b)
        rh.launch()
        total += rh.counts()
    print("rows", total.sum(axis=1), "zero bin", total[1, 0])


if __name__ == "__main__":
    main()
