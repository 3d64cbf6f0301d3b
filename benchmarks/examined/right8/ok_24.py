"""Stream callbacks report finished tiles to the assembling thread."""
from queue import SimpleQueue

import numpy as np
from numba import cuda


@cuda.jit
def mandel(out, x0, y0, dx, dy, iters):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        cr, ci = x0 + j * dx, y0 + i * dy
        zr = zi = 0.0
        n = 0
        while n < iters and zr * zr + zi * zi < 4.0:
            zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
            n += 1
        out[i, j] = n


class Tile:
    def __init__(self, size):
        self.stream = cuda.stream()
        self.host = cuda.pinned_array((size, size), np.int32)
        self.dev = cuda.device_array((size, size), np.int32)
        self.where = None


class TileRenderer:
    def __init__(self, size=256, tiles=4):
        self.size = size
        self.done = SimpleQueue()
        for _ in range(tiles):
            self.done.put(Tile(size))

    def _finished(self, stream, status, tile):
        self.done.put(tile)

    def _next(self, image):
        tile = self.done.get()
        if tile.where is not None:
            r, c = tile.where
            image[r:r + self.size, c:c + self.size] = tile.host
            tile.where = None
        return tile

    def render(self, n, iters=200):
        image = np.zeros((n, n), np.int32)
        d = 3.0 / n
        grid = (self.size // 16, self.size // 16)
        for r in range(0, n, self.size):
            for c in range(0, n, self.size):
                tile = self._next(image)
                tile.where = (r, c)
                mandel[grid, (16, 16), tile.stream](
                    tile.dev, -2.0 + c * d, -1.5 + r * d, d, d, iters)
                tile.dev.copy_to_host(tile.host, stream=tile.stream)
                tile.stream.add_callback(self._finished, tile)
        spare = [self._next(image) for _ in range(4)]
        for tile in spare:
            self.done.put(tile)
        return image


if __name__ == "__main__":
    print(TileRenderer().render(1024).sum())
