import threading

import numpy as np
from numba import cuda


@cuda.jit
def blur(src, dst):
    i = cuda.grid(1)
    n = src.size
    if i < n:
        left = src[i - 1] if i > 0 else src[i]
        right = src[i + 1] if i + 1 < n else src[i]
        dst[i] = (left + src[i] + right) / 3.0


class Tile:
    def __init__(self, data):
        self.host = cuda.pinned_array(data.shape, data.dtype)
        self.host[:] = data
        self.score = None


class TileWorker:
    def __init__(self, width, passes, device=0):
        self.width = width
        self.passes = passes
        self.device = device

    def __call__(self, tiles):
        cuda.select_device(self.device)
        stream = cuda.stream()
        a = cuda.device_array(self.width, np.float32)
        b = cuda.device_array(self.width, np.float32)
        grid = (self.width + 127) // 128

        def smooth(src, dst):
            for _ in range(self.passes):
                blur[grid, 128, stream](src, dst)
                src, dst = dst, src
            return src

        for tile in tiles:
            a.copy_to_device(tile.host, stream=stream)
            final = smooth(a, b)
            final.copy_to_host(tile.host, stream=stream)
            tile.done = cuda.event()
            tile.done.record(stream)
        for tile in tiles:
            tile.done.synchronize()
            tile.score = float(tile.host.std())
        stream.synchronize()


def deal(tiles, hands):
    piles = [[] for _ in range(hands)]
    for n, tile in enumerate(tiles):
        piles[n % hands].append(tile)
    return piles


def main():
    width = 1 << 15
    rng = np.random.default_rng(8)
    tiles = [Tile(rng.standard_normal(width).astype(np.float32)) for _ in range(12)]
    worker = TileWorker(width, passes=5)
    threads = [threading.Thread(target=worker, args=(pile,)) for pile in deal(tiles, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print([round(t.score, 4) for t in tiles])


if __name__ == "__main__":
    main()
