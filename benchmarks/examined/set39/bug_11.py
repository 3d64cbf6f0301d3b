"""Tiled windowed power estimation with results streamed to pinned memory."""
import cupy as cp
import cupyx
import numpy as np


class TileWorker:
    def __init__(self, tile, stream):
        self.stream = stream
        self.host_in = cupyx.empty_pinned((tile, tile), dtype=np.float32)
        self.host_out = cupyx.empty_pinned((tile, tile), dtype=np.float32)
        with stream:
            self.window = cp.hanning(tile).astype(cp.float32)[:, None]
            self.dev = cp.empty((tile, tile), dtype=cp.float32)
            self.power = cp.empty((tile, tile), dtype=cp.float32)
        stream.synchronize()

    def feed(self, block):
        self.stream.synchronize()
        np.copyto(self.host_in, block)
        with self.stream:
            self.dev.set(self.host_in, stream=self.stream)
            cp.multiply(self.dev, self.window, out=self.dev)
            cp.square(self.dev, out=self.power)

    def collect(self):
        return self.power.get(stream=self.stream, out=self.host_out, blocking=False)


class Mosaic:
    def __init__(self, shape, tile):
        self.shape = shape
        self.tile = tile
        self.data = np.random.default_rng(7).standard_normal(shape).astype(np.float32)

    def tiles(self):
        rows, cols = self.shape
        for r in range(0, rows, self.tile):
            for c in range(0, cols, self.tile):
                yield (r, c), self.data[r:r + self.tile, c:c + self.tile]


def summarize(power):
    flat = power.reshape(-1)
    return float(flat.mean()), float(np.percentile(flat, 95.0))


def estimate(mosaic, workers):
    table = {}
    for i, (origin, block) in enumerate(mosaic.tiles()):
        worker = workers[i % len(workers)]
        worker.feed(block)
        table[origin] = summarize(worker.collect())
    for worker in workers:
        worker.stream.synchronize()
    return table


def main():
    mosaic = Mosaic((8192, 8192), 2048)
    workers = [TileWorker(mosaic.tile, cp.cuda.Stream(non_blocking=True)) for _ in range(2)]
    table = estimate(mosaic, workers)
    for origin in sorted(table):
        print(origin, table[origin])


if __name__ == "__main__":
    main()
