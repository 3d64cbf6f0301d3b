"""Wavelet coefficients with the driver's stream-ordered allocator."""
import cupy as cp
import numpy as np

N = 1 << 20


class Wavelet:
    def __init__(self):
        cp.cuda.set_allocator(cp.cuda.MemoryAsyncPool().malloc)
        self.transform = cp.cuda.Stream(non_blocking=True)
        self.threshold = cp.cuda.Stream(non_blocking=True)
        with self.threshold:
            self.kept = cp.zeros((), cp.int64)

    def _haar(self, signal):
        with self.transform:
            data = cp.asarray(signal)
            out = cp.empty_like(data)
            half = data.size // 2
            out[:half] = (data[0::2] + data[1::2]) * 0.70710678
            out[half:] = (data[0::2] - data[1::2]) * 0.70710678
        return out

    def denoise(self, signal, level):
        coeff = self._haar(signal)
        self.threshold.wait_event(self.transform.record())
        with self.threshold:
            mask = cp.abs(coeff) > level
            self.kept += mask.sum()
            result = (coeff * mask).get()
        self.transform.wait_event(self.threshold.record())
        return result


def main():
    rng = np.random.default_rng(37)
    wavelet = Wavelet()
    for _ in range(25):
        cleaned = wavelet.denoise(rng.standard_normal(N, dtype=np.float32), 2.5)
    with wavelet.threshold:
        print(int(wavelet.kept), cleaned.std())


if __name__ == "__main__":
    main()
