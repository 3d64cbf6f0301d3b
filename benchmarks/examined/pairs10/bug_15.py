"""Iterative deblurring with Numba; the residual steers the loop."""
import numpy as np
from numba import cuda


@cuda.jit
def blur(src, dst):
    i = cuda.grid(1)
    n = src.size
    if i < n:
        left = src[i - 1] if i > 0 else src[i]
        right = src[i + 1] if i < n - 1 else src[i]
        dst[i] = 0.25 * left + 0.5 * src[i] + 0.25 * right


@cuda.jit
def correct(estimate, blurred, measured, rate, residual):
    i = cuda.grid(1)
    if i < estimate.size:
        diff = measured[i] - blurred[i]
        estimate[i] += rate * diff
        cuda.atomic.add(residual, 0, diff * diff)


class Deblurrer:
    """Van Cittert iterations on one stream."""

    def __init__(self, measured, tolerance=1e-3):
        self.n = measured.size
        self.tolerance = tolerance
        self.stream = cuda.stream()
        self.measured = cuda.to_device(measured, stream=self.stream)
        self.estimate = cuda.to_device(measured, stream=self.stream)
        self.blurred = cuda.device_array_like(measured, stream=self.stream)
        self.zero = cuda.pinned_array(1, dtype=np.float64)
        self.zero[0] = 0.0
        self.norm = cuda.pinned_array(1, dtype=np.float64)
        self.residual = cuda.device_array(1, dtype=np.float64, stream=self.stream)

    def run(self, limit=500):
        grid = (self.n + 255) // 256
        history = []
        with self.stream.auto_synchronize() as stream:
            for _ in range(limit):
                self.residual.copy_to_device(self.zero, stream=stream)
                blur[grid, 256, stream](self.estimate, self.blurred)
                correct[grid, 256, stream](
                    self.estimate, self.blurred, self.measured, 0.5, self.residual)
                self.residual.copy_to_host(self.norm, stream=stream)
                history.append(float(self.norm[0]) / self.n)
                if history[-1] < self.tolerance:
                    break
        return self.estimate.copy_to_host(), history


def main():
    rng = np.random.default_rng(6)
    signal = np.cumsum(rng.standard_normal(1 << 20)) * 0.01
    estimate, history = Deblurrer(signal).run()
    print(len(history), history[-1], float(estimate.std()))


if __name__ == "__main__":
    main()
