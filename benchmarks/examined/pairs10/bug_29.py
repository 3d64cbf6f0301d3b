"""Tomography slices: the main thread filters, a thread pool back-projects."""
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import numpy as np


class Filter:
    """Ramp filter for sinograms."""

    def __init__(self, angles, bins):
        freq = cp.fft.rfftfreq(bins).astype(cp.float32)
        self.ramp = cp.abs(freq)[None, :]
        self.bins = bins

    def __call__(self, sinogram):
        spectrum = cp.fft.rfft(cp.asarray(sinogram), axis=1)
        return cp.fft.irfft(spectrum * self.ramp, n=self.bins, axis=1).astype(cp.float32)


def back_project(filtered, angles):
    """Unweighted back-projection of one filtered sinogram to the host."""
    bins = filtered.shape[1]
    center = bins // 2
    ys, xs = cp.meshgrid(cp.arange(bins) - center, cp.arange(bins) - center, indexing="ij")
    image = cp.zeros((bins, bins), dtype=cp.float32)
    for row, angle in zip(filtered, angles):
        position = xs * np.cos(angle) + ys * np.sin(angle) + center
        image += row[cp.clip(position.astype(cp.int32), 0, bins - 1)]
    return image.get()


class Reconstructor:
    def __init__(self, angles, bins):
        self.angles = np.linspace(0.0, np.pi, angles, endpoint=False)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.filter = Filter(angles, bins)
        self.pool = ThreadPoolExecutor(max_workers=2)

    def slices(self, sinograms):
        jobs = []
        for sinogram in sinograms:
            filtered = self.filter(sinogram)
            jobs.append((filtered, self.pool.submit(back_project, filtered, self.angles)))
        return [job.result() for _, job in jobs]


def main(count=8, angles=180, bins=512):
    rng = np.random.default_rng(0)
    sinograms = [rng.random((angles, bins), dtype=np.float32) for _ in range(count)]
    images = Reconstructor(angles, bins).slices(sinograms)
    print([float(image.mean()) for image in images])


if __name__ == "__main__":
    main()
