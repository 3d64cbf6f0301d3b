"""Chirp spectra of many sensors, round-robin over streams."""
import cupy as cp
import numpy as np
from cupy.cuda import cufft
from cupyx.scipy.fft import get_fft_plan

BATCH, LENGTH = 256, 10007


class SpectrumPool:
    def __init__(self, lanes=4):
        proto = cp.zeros((BATCH, LENGTH), cp.complex64)
        self.plan = get_fft_plan(proto, axes=1)
        self.lanes = []
        for _ in range(lanes):
            s = cp.cuda.Stream(non_blocking=True)
            self.lanes.append((s, cp.empty_like(proto), cp.empty_like(proto)))
        cp.cuda.Device().synchronize()

    def submit(self, index, chirps):
        stream, src, dst = self.lanes[index % len(self.lanes)]
        with stream:
            src[...] = cp.asarray(chirps)
            self.plan.fft(src, dst, cufft.CUFFT_FORWARD)
            return stream, cp.square(cp.abs(dst)).mean(axis=0)


def gather(results):
    rows = []
    for stream, mean in results:
        with stream:
            rows.append(mean.get())
    return np.stack(rows)


def main(sensors=32):
    rng = np.random.default_rng(6)
    pool = SpectrumPool()
    results = []
    for k in range(sensors):
        chirps = rng.standard_normal((BATCH, LENGTH)).astype(np.complex64)
        results.append(pool.submit(k, chirps))
    np.save("spectra.npy", gather(results))


if __name__ == "__main__":
    main()
