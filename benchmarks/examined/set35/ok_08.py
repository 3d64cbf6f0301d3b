"""Tomographic filtering on two CuPy streams, reduced on the null stream."""
import cupy as cp
import numpy as np

_convolve = cp.ElementwiseKernel(
    "raw float32 rows, raw float32 taps, int32 width, int32 radius", "float32 out",
    """
    int row = i / width;
    int col = i % width;
    float acc = 0.f;
    for (int k = -radius; k <= radius; ++k) {
        int c = col + k;
        if (c >= 0 && c < width) acc += rows[row * width + c] * taps[k + radius];
    }
    out = acc;
    """, "row_convolve")


class RampFilter:
    def __init__(self, detectors: int, radius: int):
        self.detectors = detectors
        self.radius = radius
        k = np.arange(-radius, radius + 1)
        taps = np.zeros(2 * radius + 1, dtype=np.float32)
        taps[radius] = 0.25
        odd = k % 2 != 0
        taps[odd] = -1.0 / (np.pi * k[odd]) ** 2
        self.taps = cp.asarray(taps)

    def __call__(self, sinogram: cp.ndarray, out: cp.ndarray) -> None:
        _convolve(sinogram, self.taps, np.int32(self.detectors), np.int32(self.radius), out)


class Slices:
    """Filters even and odd slices on two streams."""

    def __init__(self, detectors: int, angles: int, count: int):
        self.filter = RampFilter(detectors, radius=128)
        self.streams = [cp.cuda.Stream(), cp.cuda.Stream()]
        self.filtered = [cp.empty((angles, detectors), cp.float32) for _ in range(count)]

    def run(self, sinograms) -> None:
        for i, sinogram in enumerate(sinograms):
            with self.streams[i % 2]:
                self.filter(cp.asarray(sinogram), self.filtered[i])

    def mean_profile(self) -> cp.ndarray:
        with cp.cuda.Stream.null:
            total = cp.zeros_like(self.filtered[0])
            for part in self.filtered:
                total += part
            return total.mean(axis=0) / len(self.filtered)


class Session:
    def __init__(self, detectors: int, angles: int, count: int):
        self.slices = Slices(detectors, angles, count)
        self.profiles = []

    def process(self, sinograms) -> None:
        self.slices.run(sinograms)
        self.profiles.append(self.slices.mean_profile())

    def summary(self) -> np.ndarray:
        return np.stack([cp.asnumpy(p) for p in self.profiles])


def scans(count: int, per_scan: int, angles: int, detectors: int):
    rng = np.random.default_rng(3)
    for _ in range(count):
        yield [rng.random((angles, detectors), dtype=np.float32) for _ in range(per_scan)]


def main() -> None:
    session = Session(detectors=2048, angles=1440, count=6)
    for scan in scans(3, 6, 1440, 2048):
        session.process(scan)
    print(session.summary().std(axis=1))


if __name__ == "__main__":
    main()
