"""Streaming accumulation of detector tiles into a running mean image."""
import argparse

import cupy as cp
import cupyx
import numpy as np


class TileAccumulator:
    """Uploads tiles through a small ring and adds them up on the device."""

    def __init__(self, shape, depth=3):
        self.depth = depth
        self.h2d = cp.cuda.Stream(non_blocking=True)
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.host = [cupyx.empty_pinned(shape, dtype=np.float32) for _ in range(depth)]
        with self.h2d:
            self.dev = [cp.empty(shape, dtype=cp.float32) for _ in range(depth)]
        self.uploaded = [cp.cuda.Event(disable_timing=True) for _ in range(depth)]
        self.consumed = [cp.cuda.Event(disable_timing=True) for _ in range(depth)]
        with self.compute:
            self.total = cp.zeros(shape, dtype=cp.float32)
        self.count = 0

    def push(self, tile):
        k = self.count % self.depth
        self.uploaded[k].synchronize()
        np.multiply(tile, np.float32(1.0 / 255.0), out=self.host[k], casting="unsafe")
        self.h2d.wait_event(self.consumed[k])
        self.dev[k].set(self.host[k], stream=self.h2d)
        self.uploaded[k].record(self.h2d)
        self.compute.wait_event(self.uploaded[k])
        with self.compute:
            self.total += self.dev[k]
        self.consumed[k].record(self.compute)
        self.count += 1

    def mean(self):
        with self.compute:
            self.total /= max(self.count, 1)
            result = self.total.get()
        self.compute.synchronize()
        return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiles", type=int, default=64)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    acc = TileAccumulator((1024, 1024))
    for _ in range(args.tiles):
        acc.push(rng.integers(0, 255, size=(1024, 1024), dtype=np.uint8))
    print(float(acc.mean().mean()))


if __name__ == "__main__":
    main()
