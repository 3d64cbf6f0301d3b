"""Dispersion removal in two subbands, each on its own stream."""
import cupy as cp
import numpy as np
from cupyx.scipy.fft import fft, get_fft_plan, ifft

N = 1_000_003


class Subband:
    def __init__(self, center, plan):
        self.plan = plan
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            freq = cp.fft.fftfreq(N).astype(cp.float32)
            self.chirp = cp.exp(1j * center * freq * freq).astype(cp.complex64)

    def dedisperse(self, samples):
        with self.stream:
            spectrum = fft(cp.asarray(samples), plan=self.plan)
            spectrum *= self.chirp
            self.result = ifft(spectrum, plan=self.plan)

    def power(self):
        with self.stream:
            return float((cp.abs(self.result) ** 2).max())


class Dedisperser:
    def __init__(self, centers=(1.2e3, 1.7e3)):
        plan = get_fft_plan(cp.empty(N, cp.complex64))
        cp.cuda.Device().synchronize()
        self.bands = [Subband(center, plan) for center in centers]

    def process(self, samples):
        for band in self.bands:
            band.dedisperse(samples)
        return [band.power() for band in self.bands]


def main():
    rng = np.random.default_rng(26)
    dedisperser = Dedisperser()
    for _ in range(20):
        block = rng.standard_normal(2 * N, dtype=np.float32).view(np.complex64)
        print(dedisperser.process(block))


if __name__ == "__main__":
    main()
