"""Deadtime correction: counts are histogrammed by CuPy, corrected by Numba."""
import cupy as cp
import numpy as np
from numba import cuda

CHANNELS = 1 << 22


@cuda.jit
def correct(counts, live, tau):
    i = cuda.grid(1)
    if i < counts.size:
        rate = counts[i] / live
        counts[i] = counts[i] / (1.0 - min(rate * tau, 0.9))


class DeadtimeCorrection:
    def __init__(self, tau):
        self.tau = tau
        self.counting = cp.cuda.Stream(non_blocking=True)
        self.correcting = cuda.stream()
        with self.counting:
            self.spectrum = cp.zeros(CHANNELS, cp.float64)
        self.counting.synchronize()

    def accumulate(self, channels):
        with self.counting:
            hits = cp.asarray(channels)
            self.spectrum += cp.bincount(hits, minlength=CHANNELS)

    def corrected(self, live):
        view = cuda.as_cuda_array(self.spectrum)
        correct[(CHANNELS + 255) // 256, 256, self.correcting](view, live, self.tau)
        self.correcting.synchronize()
        return view.copy_to_host()


def main():
    rng = np.random.default_rng(52)
    correction = DeadtimeCorrection(2e-6)
    for _ in range(20):
        correction.accumulate(rng.integers(0, CHANNELS, 1 << 20, dtype=np.int32))
    print(correction.corrected(60.0).sum())


if __name__ == "__main__":
    main()
