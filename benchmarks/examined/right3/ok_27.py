"""Band powers on a handful of streams around the default stream."""
import cupy as cp


class BandPower:
    def __init__(self, rate: float, bands: list[tuple[float, float]]):
        self.rate = rate
        self.bands = bands
        self.streams = [cp.cuda.Stream(non_blocking=False) for _ in bands]

    def _power(self, spectrum: cp.ndarray, freqs: cp.ndarray, lo: float, hi: float) -> cp.ndarray:
        mask = (freqs >= lo) & (freqs < hi)
        return (cp.abs(spectrum) ** 2 * mask).sum(axis=-1)

    def __call__(self, x: cp.ndarray) -> cp.ndarray:
        """`x` is (channels, samples) made on the default stream."""
        spectrum = cp.fft.rfft(x, axis=-1)
        freqs = cp.fft.rfftfreq(x.shape[-1], d=1.0 / self.rate)
        parts = []
        for stream, (lo, hi) in zip(self.streams, self.bands):
            with stream:
                parts.append(self._power(spectrum, freqs, lo, hi))
        table = cp.stack(parts, axis=-1)
        return table / table.sum(axis=-1, keepdims=True)


class Recorder:
    def __init__(self, channels: int, alpha: float):
        self.mean = cp.zeros(channels)
        self.alpha = alpha

    def update(self, ratios: cp.ndarray) -> None:
        self.mean += self.alpha * (ratios[:, 0] - self.mean)


def main():
    with cp.cuda.Stream.null:
        power = BandPower(250.0, [(1, 4), (4, 8), (8, 13), (13, 30)])
        recorder = Recorder(32, 0.05)
        for _ in range(100):
            x = cp.random.standard_normal((32, 2000))
            recorder.update(power(x))
        print(recorder.mean.get()[:4])


if __name__ == "__main__":
    main()
