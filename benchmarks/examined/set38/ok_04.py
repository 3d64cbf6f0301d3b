"""Video statistics: decode on one stream, statistics gathered without naming any stream."""
from collections import deque

import cupy as cp
import numpy as np

yuv_to_luma = cp.ElementwiseKernel(
    "uint8 y, uint8 u, uint8 v", "float32 l",
    "l = 0.9f * y + 0.05f * (u - 128) + 0.05f * (v - 128)", "yuv_to_luma")


class Surface:
    def __init__(self, shape):
        self.luma = cp.zeros(shape, dtype=cp.float32)


class Decoder:
    def __init__(self, source, shape, surfaces=2):
        self.source = iter(source)
        self.stream = cp.cuda.Stream()
        self.free = deque(Surface(shape) for _ in range(surfaces))

    def decode(self):
        planes = next(self.source, None)
        if planes is None:
            return None
        surface = self.free.popleft()
        with self.stream:
            y, u, v = (cp.asarray(p) for p in planes)
            yuv_to_luma(y, u, v, surface.luma)
        return surface

    def recycle(self, surface):
        self.free.append(surface)


class Statistics:
    def __init__(self, bins=64):
        self.bins = bins
        self.hist = cp.zeros(bins, dtype=cp.int64)
        self.mean = cp.zeros((), dtype=cp.float64)
        self.motion = cp.zeros((), dtype=cp.float64)
        self.last = None
        self.frames = 0

    def update(self, luma):
        q = cp.clip((luma * (self.bins / 256.0)).astype(cp.int32), 0, self.bins - 1)
        self.hist += cp.bincount(q.ravel(), minlength=self.bins)[: self.bins]
        self.mean += luma.mean(dtype=cp.float64)
        if self.last is not None:
            self.motion += cp.abs(luma - self.last).mean(dtype=cp.float64)
        self.last = luma.copy()
        self.frames += 1

    def report(self):
        n = max(self.frames, 1)
        return {
            "frames": self.frames,
            "mean": float(self.mean) / n,
            "motion": float(self.motion) / n,
            "mode": int(self.hist.argmax()),
        }


def clip(n, shape):
    rng = np.random.default_rng(11)
    base = [rng.integers(0, 255, size=shape, dtype=np.uint8) for _ in range(3)]
    for i in range(n):
        yield [np.roll(p, i, axis=1) for p in base]


def main():
    shape = (1080, 1920)
    decoder = Decoder(clip(40, shape), shape)
    stats = Statistics()
    while True:
        surface = decoder.decode()
        if surface is None:
            break
        stats.update(surface.luma)
        decoder.recycle(surface)
    print(stats.report())


if __name__ == "__main__":
    main()
