import cupy as cp
import numpy as np


class BandFilterBank:
    """Separates one signal into frequency bands, a stream per band."""

    def __init__(self, length, bands):
        self.length = length
        self.edges = np.linspace(0, length // 2 + 1, bands + 1).astype(int)
        self.streams = [cp.cuda.Stream() for _ in range(bands)]
        self.parts = cp.empty((bands, length // 2 + 1), dtype=cp.complex128)
        self.energy = cp.empty(bands, dtype=cp.float64)

    def split(self, signal):
        with cp.cuda.Stream.null:
            spectrum = cp.fft.rfft(signal)
            for number, stream in enumerate(self.streams):
                lo, hi = int(self.edges[number]), int(self.edges[number + 1])
                with stream:
                    part = self.parts[number]
                    part.fill(0)
                    part[lo:hi] = spectrum[lo:hi]
                    self.energy[number] = cp.square(cp.abs(part)).sum() * (2.0 / self.length)
            return cp.fft.irfft(self.parts, n=self.length, axis=1), self.energy.copy()

    def equalize(self, signal, gains):
        bands, energy = self.split(signal)
        with cp.cuda.Stream.null:
            gains = cp.asarray(gains, dtype=cp.float64)
            mixed = (bands * gains[:, None]).sum(axis=0)
            peak = cp.abs(mixed).max()
            return mixed / cp.maximum(peak, 1e-12), energy

    def normalize_inplace(self, signal):
        _, energy = self.split(signal)
        with cp.cuda.Stream.null:
            signal /= cp.sqrt(energy.sum() / self.length)
        return signal


def tone(length, freqs, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(length) / length
    wave = sum(np.sin(2 * np.pi * f * t + rng.uniform(0, 6)) for f in freqs)
    return wave + 0.01 * rng.standard_normal(length)


def main():
    length = 1 << 16
    bank = BandFilterBank(length, 6)
    signal = cp.asarray(tone(length, (50, 4000, 15000, 30000)))
    bands, energy = bank.split(signal)
    print("residual", float(cp.abs(bands.sum(axis=0) - signal).max()))
    print("energy", cp.asnumpy(energy).round(1).tolist())
    mixed, _ = bank.equalize(signal, [1, 0.5, 0, 2, 1, 0.1])
    print("peak", float(cp.abs(mixed).max()))
    bank.normalize_inplace(signal)
    own = cp.cuda.Stream()
    with own:
        signal *= 0.5
        _, energy = bank.split(signal)
        energy *= 4.0
    print("after", float(energy.sum()) / length)


if __name__ == "__main__":
    main()
