import cupy as cp
import numpy as np


class Correlator:
    """Spectra and power levels on two worker streams, accumulation on the null stream."""

    def __init__(self, antennas, channels):
        self.null = cp.cuda.Stream.null
        self.fft_stream = cp.cuda.Stream()
        self.level_stream = cp.cuda.Stream()
        self.channels = channels
        with self.null:
            self.window = cp.hanning(2 * channels).astype(cp.float32)
            self.spectra = cp.zeros((antennas, channels), dtype=cp.complex64)
            self.levels = cp.ones(antennas, dtype=cp.float32)
            self.visibility = cp.zeros((antennas, antennas), dtype=cp.complex64)

    def _transform(self, samples):
        with self.fft_stream:
            self.spectra[...] = cp.fft.rfft(samples * self.window, axis=1)[:, : self.channels]
        with self.level_stream:
            self.levels[...] = cp.sqrt((samples * samples).mean(axis=1))

    def integrate(self, block):
        with self.null:
            samples = cp.asarray(block)
        self._transform(samples)
        with self.null:
            scaled = self.spectra / self.levels[:, None]
            self.visibility += scaled @ scaled.conj().T

    def result(self, count):
        with self.null:
            return cp.asnumpy(self.visibility / count)


def main():
    rng = np.random.default_rng(1)
    corr = Correlator(32, 512)
    blocks = 100
    for _ in range(blocks):
        corr.integrate(rng.standard_normal((32, 1024)).astype(np.float32))
    vis = corr.result(blocks)
    print(np.abs(np.diag(vis)).mean())


if __name__ == "__main__":
    main()
