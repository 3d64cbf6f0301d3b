"""Burst merge with numba: lanes keep partial sums, a final pass folds them together."""
import argparse
import math
from dataclasses import dataclass
from typing import List, Tuple

import numpy as np
from numba import cuda, float32

TPB = (16, 16)


@cuda.jit
def splat(frame, dy, dx, scale, num, den):
    x, y = cuda.grid(2)
    H, W = num.shape
    if y >= H or x >= W:
        return
    h, w = frame.shape
    sy = y / scale + dy
    sx = x / scale + dx
    a = float32(0.0)
    b = float32(0.0)
    for j in range(-1, 2):
        for i in range(-1, 2):
            py, px = int(sy) + j, int(sx) + i
            if 0 <= py < h and 0 <= px < w:
                g = math.exp(-((py - sy) ** 2 + (px - sx) ** 2))
                a += g * frame[py, px]
                b += g
    num[y, x] += a
    den[y, x] += b


@cuda.jit
def fold(num, den, out):
    x, y = cuda.grid(2)
    H, W = out.shape
    if y >= H or x >= W:
        return
    a = float32(0.0)
    b = float32(0.0)
    for l in range(num.shape[0]):
        a += num[l, y, x]
        b += den[l, y, x]
    out[y, x] = a / max(b, float32(1e-6))


@dataclass
class BurstOptions:
    scale: int = 2
    lanes: int = 4


class Lane:
    def __init__(self, index: int, shape: Tuple[int, int], num, den):
        self.stream = cuda.stream()
        self.num, self.den = num[index], den[index]
        self.staging = cuda.pinned_array(shape, np.float32)
        self.frame = cuda.device_array(shape, np.float32)

    def feed(self, img: np.ndarray) -> None:
        self.stream.synchronize()
        self.staging[...] = img
        self.frame.copy_to_device(self.staging, stream=self.stream)

    def accumulate(self, grid, shift: Tuple[float, float], scale: int) -> None:
        splat[grid, TPB, self.stream](
            self.frame, np.float32(shift[0]), np.float32(shift[1]), np.float32(scale), self.num, self.den
        )


class BurstMerge:
    def __init__(self, shape: Tuple[int, int], opts: BurstOptions):
        self.opts = opts
        self.out = (shape[0] * opts.scale, shape[1] * opts.scale)
        zeros = np.zeros((opts.lanes,) + self.out, np.float32)
        self.num, self.den = cuda.to_device(zeros), cuda.to_device(zeros)
        cuda.synchronize()
        self.lanes = [Lane(i, shape, self.num, self.den) for i in range(opts.lanes)]

    @property
    def grid(self) -> Tuple[int, int]:
        return (self.out[1] + 15) // 16, (self.out[0] + 15) // 16

    def add(self, i: int, img: np.ndarray, shift: Tuple[float, float]) -> None:
        lane = self.lanes[i % len(self.lanes)]
        lane.feed(img)
        lane.accumulate(self.grid, shift, self.opts.scale)

    def result(self) -> np.ndarray:
        for lane in self.lanes:
            lane.stream.synchronize()
        out = cuda.device_array(self.out, np.float32)
        fold[self.grid, TPB](self.num, self.den, out)
        return out.copy_to_host()


def make_burst(n: int, shape: Tuple[int, int]) -> Tuple[List[np.ndarray], List[Tuple[float, float]]]:
    rng = np.random.default_rng(5)
    base = rng.random(shape, dtype=np.float32)
    shifts = [tuple(rng.uniform(-1.5, 1.5, 2)) for _ in range(n)]
    return [np.roll(base, (round(a), round(b)), (0, 1)) for a, b in shifts], shifts


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--frames", type=int, default=16)
    ap.add_argument("--size", type=int, default=1024)
    args = ap.parse_args()
    shape = (args.size, args.size)
    merger = BurstMerge(shape, BurstOptions())
    for i, (img, s) in enumerate(zip(*make_burst(args.frames, shape))):
        merger.add(i, img, s)
    r = merger.result()
    print(r.shape, float(r.mean()))


if __name__ == "__main__":
    main()
