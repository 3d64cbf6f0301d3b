"""Tiled windowed power estimation; one tile is in flight per worker."""
import cupy as cp
import cupyx
import numpy as np


class TileWorker:
    def __init__(self, tile):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.done = cp.cuda.Event(disable_timing=True)
        self.host_in = cupyx.empty_pinned((tile, tile), dtype=np.float32)
        self.host_out = cupyx.empty_pinned((tile, tile), dtype=np.float32)
        with self.stream:
            self.window = cp.hanning(tile).astype(cp.float32)[:, None]
            self.dev = cp.empty((tile, tile), dtype=cp.float32)
            self.power = cp.empty((tile, tile), dtype=cp.float32)
        self.origin = None

    def feed(self, origin, block):
        np.copyto(self.host_in, block)
        with self.stream:
            self.dev.set(self.host_in, stream=self.stream)
            cp.multiply(self.dev, self.window, out=self.dev)
            cp.square(self.dev, out=self.power)
            self.power.data.copy_to_host_async(
                self.host_out.ctypes.data, self.host_out.nbytes, self.stream
            )
        self.done.record(self.stream)
        self.origin = origin

    def drain(self, table):
        if self.origin is None:
            return
        self.done.synchronize()
        flat = self.host_out.reshape(-1)
        table[self.origin] = (float(flat.mean()), float(np.percentile(flat, 95.0)))
        self.origin = None


def tiles(data, tile):
    rows, cols = data.shape
    for r in range(0, rows, tile):
        for c in range(0, cols, tile):
            yield (r, c), data[r:r + tile, c:c + tile]


def estimate(data, tile, workers):
    table = {}
    for i, (origin, block) in enumerate(tiles(data, tile)):
        worker = workers[i % len(workers)]
        worker.drain(table)
        worker.feed(origin, block)
    for worker in workers:
        worker.drain(table)
    return table


def main():
    data = np.random.default_rng(7).standard_normal((8192, 8192)).astype(np.float32)
    workers = [TileWorker(2048) for _ in range(2)]
    table = estimate(data, 2048, workers)
    for origin in sorted(table):
        print(origin, table[origin])


if __name__ == "__main__":
    main()
