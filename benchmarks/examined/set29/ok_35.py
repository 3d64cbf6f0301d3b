"""Ring of unified memory windows: the device writes statistics windows, the
host analyses a window once its event has completed."""
import numpy as np
from numba import cuda


@cuda.jit
def advance(x, r):
    i = cuda.grid(1)
    if i < x.size:
        for _ in range(64):
            x[i] = r * x[i] * (1.0 - x[i])


@cuda.jit
def window_hist(x, bins):
    i = cuda.grid(1)
    if i < x.size:
        b = int(x[i] * bins.size)
        cuda.atomic.add(bins, min(b, bins.size - 1), 1)


@cuda.jit
def zero(bins):
    i = cuda.grid(1)
    if i < bins.size:
        bins[i] = 0


class Window:
    def __init__(self, n_bins):
        self.bins = cuda.managed_array(n_bins, dtype=np.int64)
        self.filled = cuda.event(timing=False)
        self.step = None


class LogisticEnsemble:
    def __init__(self, n, r=3.9, n_bins=256, depth=3):
        self.stream = cuda.stream()
        self.x = cuda.to_device(np.random.default_rng(0).random(n))
        cuda.synchronize()
        self.windows = [Window(n_bins) for _ in range(depth)]
        self.r = r
        self.grid = (n + 255) // 256
        self.report = []

    def _analyse(self, w):
        w.filled.synchronize()
        p = w.bins / w.bins.sum()
        p = p[p > 0]
        self.report.append((w.step, float(-(p * np.log(p)).sum())))
        w.step = None

    def _emit(self, w, step):
        zero[1, 256, self.stream](w.bins)
        advance[self.grid, 256, self.stream](self.x, self.r)
        window_hist[self.grid, 256, self.stream](self.x, w.bins)
        w.filled.record(self.stream)
        w.step = step

    def run(self, steps):
        for step in range(steps):
            w = self.windows[step % len(self.windows)]
            if w.step is not None:
                self._analyse(w)
            self._emit(w, step)
        for w in sorted((w for w in self.windows if w.step is not None), key=lambda w: w.step):
            self._analyse(w)
        return self.report


if __name__ == "__main__":
    for step, entropy in LogisticEnsemble(1 << 20).run(24):
        print(step, round(entropy, 4))
