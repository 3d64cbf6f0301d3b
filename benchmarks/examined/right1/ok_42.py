"""Multi-band decay with one stream for each band and a shared mix."""
import cupy as cp
import numpy as np

_decay = cp.ElementwiseKernel(
    "float32 band, float32 mix, float32 gain",
    "float32 out",
    "out = band * gain + mix * (1.0f - gain)",
    "band_decay",
)


class BandStack:
    def __init__(self, gains, samples):
        self.gains = [np.float32(g) for g in gains]
        self.streams = [cp.cuda.Stream() for _ in gains]
        self.bands = [cp.ones(samples, cp.float32) for _ in gains]
        self.mix = cp.zeros(samples, cp.float32)

    def step(self):
        for stream, band, gain in zip(self.streams, self.bands, self.gains):
            with stream:
                _decay(band, self.mix, gain, band)
        self.mix.fill(0)
        for band in self.bands:
            cp.add(self.mix, band, out=self.mix)
        self.mix /= len(self.bands)

    def excite(self, index, signal):
        with self.streams[index]:
            self.bands[index].set(signal, stream=self.streams[index])

    def level(self):
        return float(cp.sqrt(cp.mean(self.mix * self.mix)))


def main(steps=200):
    stack = BandStack([0.99, 0.95, 0.9, 0.5], 1 << 18)
    noise = np.random.default_rng(1).standard_normal(1 << 18).astype(np.float32)
    levels = []
    for i in range(steps):
        if i % 50 == 0:
            stack.excite(i // 50, noise)
        stack.step()
        if i % 10 == 9:
            levels.append(stack.level())
    return levels


if __name__ == "__main__":
    print(main())
