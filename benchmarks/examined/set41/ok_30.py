"""Frame compositor with CuPy: kernels on the null stream, copies on an ordinary stream."""
import argparse
from dataclasses import dataclass
from typing import Iterator, List

import cupy as cp
import cupyx
import numpy as np

blend = cp.ElementwiseKernel(
    "float32 a, float32 b, float32 alpha", "uint8 y",
    "y = (unsigned char)(255.0f * min(max(a * (1 - alpha) + b * alpha, 0.0f), 1.0f))",
    "blend_u8",
)


@dataclass
class CanvasSpec:
    width: int = 1280
    height: int = 720
    alpha: float = 0.35

    @property
    def shape(self):
        return (self.height, self.width, 3)


class Readback:
    """Copies finished frames out through a stream created with default flags."""

    def __init__(self, spec: CanvasSpec):
        self.stream = cp.cuda.Stream()
        self.host = cupyx.empty_pinned(spec.shape, dtype=np.uint8)

    def pull(self, frame: cp.ndarray) -> np.ndarray:
        frame.get(stream=self.stream, out=self.host, blocking=False)
        self.stream.synchronize()
        return self.host.copy()


class Background:
    def __init__(self, spec: CanvasSpec):
        y = cp.linspace(0, 1, spec.height, dtype=cp.float32)[:, None, None]
        x = cp.linspace(0, 1, spec.width, dtype=cp.float32)[None, :, None]
        self.base = cp.broadcast_to(y * x, spec.shape).copy()

    def at(self, t: int) -> cp.ndarray:
        return cp.roll(self.base, 4 * t, axis=1)


class Overlay:
    def __init__(self, spec: CanvasSpec, seed: int):
        self.rng = cp.random.RandomState(seed)
        self.spec = spec

    def at(self, t: int) -> cp.ndarray:
        noise = self.rng.rand(*self.spec.shape, dtype=cp.float32)
        return noise * cp.float32(0.5 + 0.5 * np.sin(t / 10))


class Compositor:
    def __init__(self, spec: CanvasSpec):
        self.spec = spec
        self.bg, self.fg = Background(spec), Overlay(spec, 7)
        self.canvas = cp.empty(spec.shape, dtype=cp.uint8)
        self.readback = Readback(spec)

    def draw(self, t: int) -> cp.ndarray:
        blend(self.bg.at(t), self.fg.at(t), np.float32(self.spec.alpha), self.canvas)
        return self.canvas

    def frames(self, n: int) -> Iterator[np.ndarray]:
        for t in range(n):
            yield self.readback.pull(self.draw(t))


class Histogram:
    def __init__(self):
        self.bins = np.zeros(16, np.int64)

    def add(self, frame: np.ndarray) -> None:
        self.bins += np.bincount((frame >> 4).ravel(), minlength=16)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--frames", type=int, default=60)
    ap.add_argument("--alpha", type=float, default=0.35)
    args = ap.parse_args()
    comp = Compositor(CanvasSpec(alpha=args.alpha))
    hist = Histogram()
    means: List[float] = []
    for f in comp.frames(args.frames):
        hist.add(f)
        means.append(float(f.mean()))
    print(hist.bins, means[:3])


if __name__ == "__main__":
    main()
