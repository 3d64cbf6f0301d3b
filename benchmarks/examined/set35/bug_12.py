"""Lomb-Scargle style periodogram with Numba kernels on a CuPy stream."""
import math

import cupy as cp
import numpy as np
from numba import cuda


@cuda.jit
def _periodogram(t, y, freqs, out):
    i = cuda.grid(1)
    if i >= freqs.shape[0]:
        return
    w = freqs[i]
    xc = 0.0
    xs = 0.0
    cc = 0.0
    ss = 0.0
    for j in range(t.shape[0]):
        c = math.cos(w * t[j])
        s = math.sin(w * t[j])
        xc += y[j] * c
        xs += y[j] * s
        cc += c * c
        ss += s * s
    out[i] = 0.5 * (xc * xc / (cc + 1e-12) + xs * xs / (ss + 1e-12))


class KernelConfig:
    def __init__(self, stream: cp.cuda.Stream, threads: int = 128):
        self.stream = stream
        self.numba_stream = cuda.external_stream(stream.ptr)
        self.threads = threads

    def blocks(self, n: int) -> int:
        return (n + self.threads - 1) // self.threads


class LombScargle:
    """Results land in page-locked memory that the device writes directly."""

    def __init__(self, max_freqs: int, config: KernelConfig):
        self.config = config
        self.result = cuda.mapped_array(max_freqs, dtype=np.float64)

    def __call__(self, t: np.ndarray, y: np.ndarray, freqs: np.ndarray,
                 autosync: bool = True) -> np.ndarray:
        config = self.config
        with config.stream:
            d_t = cp.asarray(t, dtype=cp.float64)
            d_y = cp.asarray(y, dtype=cp.float64)
            d_y = d_y - d_y.mean()
            d_f = cp.asarray(freqs, dtype=cp.float64)
            _periodogram[config.blocks(d_f.size), config.threads, config.numba_stream](
                d_t, d_y, d_f, self.result)
        if autosync:
            cp_stream = cp.cuda.stream.Stream(null=True)
            cp_stream.synchronize()
        return self.result[:freqs.size]


class PeakFinder:
    def __init__(self, method: LombScargle, count: int):
        self.method = method
        self.count = count

    def find(self, t: np.ndarray, y: np.ndarray, freqs: np.ndarray) -> np.ndarray:
        power = self.method(t, y, freqs)
        order = np.argsort(power)[::-1][:self.count]
        return freqs[order]


def synth(samples: int, tones, noise: float, seed: int):
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 60.0, samples))
    y = noise * rng.standard_normal(samples)
    for w in tones:
        y += np.cos(w * t)
    return t, y


def main() -> None:
    config = KernelConfig(cp.cuda.Stream(non_blocking=True))
    freqs = np.linspace(0.05, 40.0, 200000)
    finder = PeakFinder(LombScargle(freqs.size, config), count=3)
    for seed, tones in enumerate([(2.0,), (5.0, 11.0), (0.7, 21.0, 33.0)]):
        t, y = synth(4000, tones, 0.2, seed)
        print(tones, finder.find(t, y, freqs))


if __name__ == "__main__":
    main()
