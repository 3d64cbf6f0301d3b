import cupy as cp


class MelBank:
    """Mel features of wave chunks, on a stream apart from the model's."""

    def __init__(self, size=1024, bands=80, hop=256):
        self.size, self.hop, self.bands = size, hop, bands
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.window = cp.hanning(size).astype(cp.float32)
        self.weights = self._triangles()
        cp.cuda.get_current_stream().synchronize()

    def _triangles(self):
        bins = self.size // 2 + 1
        centre = cp.linspace(0, bins - 1, self.bands + 2, dtype=cp.float32)
        pos = cp.arange(bins, dtype=cp.float32)[:, None]
        left = (pos - centre[:-2]) / (centre[1:-1] - centre[:-2])
        right = (centre[2:] - pos) / (centre[2:] - centre[1:-1])
        return cp.maximum(cp.minimum(left, right), 0)

    def frames(self, wave):
        count = 1 + (wave.size - self.size) // self.hop
        at = cp.arange(count)[:, None] * self.hop + cp.arange(self.size)
        return wave[at] * self.window

    def __call__(self, wave):
        with self.stream:
            x = cp.asarray(wave)
            power = cp.abs(cp.fft.rfft(self.frames(x), axis=1)) ** 2
            mel = power.astype(cp.float32) @ self.weights
            return cp.log(mel + 1e-6).astype(cp.float32)
