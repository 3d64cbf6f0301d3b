"""Burst super-resolution: every frame of a burst is warped and merged on a finer grid."""
import argparse
import math
from dataclasses import dataclass
from typing import List, Sequence, Tuple

import numpy as np
from numba import cuda, float32

BLOCK = (16, 16)


@cuda.jit(device=True)
def gauss(dx, dy, inv):
    return math.exp(-(dx * dx + dy * dy) * inv)


@cuda.jit
def estimate_robustness(frame, ref, flow_y, flow_x, out):
    x, y = cuda.grid(2)
    h, w = frame.shape
    if y >= h or x >= w:
        return
    yy = min(max(int(y + flow_y), 0), h - 1)
    xx = min(max(int(x + flow_x), 0), w - 1)
    d = frame[yy, xx] - ref[y, x]
    out[y, x] = math.exp(-d * d * float32(25.0))


@cuda.jit
def merge(frame, robustness, flow_y, flow_x, scale, inv, num, den):
    x, y = cuda.grid(2)
    H, W = num.shape
    if y >= H or x >= W:
        return
    h, w = frame.shape
    cy = y / scale + flow_y
    cx = x / scale + flow_x
    acc = float32(0.0)
    wsum = float32(0.0)
    for j in range(-1, 2):
        for i in range(-1, 2):
            py = int(cy) + j
            px = int(cx) + i
            if 0 <= py < h and 0 <= px < w:
                g = gauss(px - cx, py - cy, inv) * robustness[min(y // int(scale), h - 1), min(x // int(scale), w - 1)]
                acc += g * frame[py, px]
                wsum += g
    num[y, x] += acc
    den[y, x] += wsum


@cuda.jit
def finish(num, den, out):
    x, y = cuda.grid(2)
    H, W = out.shape
    if y < H and x < W:
        out[y, x] = num[y, x] / max(den[y, x], float32(1e-6))


@dataclass
class MergeOptions:
    scale: int = 2
    sigma: float = 0.7
    lanes: int = 3

    @property
    def inv(self) -> float:
        return 1.0 / (2 * self.sigma ** 2)


class Lane:
    """A stream with its private upload and robustness buffers."""

    def __init__(self, shape: Tuple[int, int]):
        self.stream = cuda.stream()
        self.host = cuda.pinned_array(shape, dtype=np.float32)
        self.frame = cuda.device_array(shape, dtype=np.float32)
        self.rob = cuda.device_array(shape, dtype=np.float32)

    def upload(self, img: np.ndarray) -> None:
        self.stream.synchronize()
        self.host[:] = img
        self.frame.copy_to_device(self.host, stream=self.stream)


class BurstMerger:
    def __init__(self, shape: Tuple[int, int], opts: MergeOptions):
        self.shape = shape
        self.opts = opts
        self.out_shape = (shape[0] * opts.scale, shape[1] * opts.scale)
        self.lanes = [Lane(shape) for _ in range(opts.lanes)]
        self.zero = np.zeros(self.out_shape, np.float32)

    def grid_for(self, shape: Sequence[int]) -> Tuple[int, int]:
        return (shape[1] + BLOCK[0] - 1) // BLOCK[0], (shape[0] + BLOCK[1] - 1) // BLOCK[1]

    def add_frame(self, lane: Lane, img: np.ndarray, shift, ref, num, den) -> None:
        lane.upload(img)
        fy, fx = np.float32(shift[0]), np.float32(shift[1])
        estimate_robustness[self.grid_for(self.shape), BLOCK, lane.stream](lane.frame, ref, fy, fx, lane.rob)
        merge[self.grid_for(self.out_shape), BLOCK, lane.stream](
            lane.frame, lane.rob, fy, fx, np.float32(self.opts.scale), np.float32(self.opts.inv), num, den
        )

    def process(self, burst: List[np.ndarray], shifts: List[Tuple[float, float]]) -> np.ndarray:
        ref = cuda.to_device(burst[0])
        num = cuda.to_device(self.zero)
        den = cuda.to_device(self.zero)
        out = cuda.device_array(self.out_shape, dtype=np.float32)
        cuda.synchronize()
        for i, (img, s) in enumerate(zip(burst, shifts)):
            self.add_frame(self.lanes[i % len(self.lanes)], img, s, ref, num, den)
        cuda.synchronize()
        finish[self.grid_for(self.out_shape), BLOCK](num, den, out)
        return out.copy_to_host()


def synthetic_burst(n: int, shape: Tuple[int, int], seed: int):
    rng = np.random.default_rng(seed)
    base = rng.random(shape, dtype=np.float32)
    shifts = [(0.0, 0.0)] + [tuple(rng.uniform(-1, 1, 2)) for _ in range(n - 1)]
    frames = [np.roll(base, (round(a), round(b)), (0, 1)) + rng.normal(0, 0.01, shape).astype(np.float32)
              for a, b in shifts]
    return [np.ascontiguousarray(f, dtype=np.float32) for f in frames], shifts


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--frames", type=int, default=12)
    ap.add_argument("--height", type=int, default=1536)
    ap.add_argument("--width", type=int, default=2048)
    ap.add_argument("--scale", type=int, default=2)
    args = ap.parse_args()
    shape = (args.height, args.width)
    burst, shifts = synthetic_burst(args.frames, shape, 0)
    merger = BurstMerger(shape, MergeOptions(scale=args.scale))
    img = merger.process(burst, shifts)
    print(img.shape, float(img.mean()), float(img.std()))


if __name__ == "__main__":
    main()
