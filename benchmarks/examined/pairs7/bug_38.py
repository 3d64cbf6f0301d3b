"""Feeds sky tiles to a device mosaic through a handful of staging pages."""
import cupy as cp
import cupyx
import numpy as np

TILE = 1024


class Page:
    def __init__(self):
        self.data = cupyx.empty_pinned((TILE, TILE), np.float32)
        self.sent = cp.cuda.Event(disable_timing=True)

    def acquire(self):
        if self.sent.done:
            self.sent.synchronize()
        return self.data


class Mosaic:
    def __init__(self, side, pages=3):
        self.side = side
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.pages = [Page() for _ in range(pages)]
        self.tiles = 0
        with self.stream:
            self.image = cp.zeros((side, side, TILE, TILE), cp.float32)
            self.weight = cp.zeros((side, side), cp.float32)

    def add(self, row, col, tile):
        page = self.pages[self.tiles % len(self.pages)]
        np.copyto(page.acquire(), tile)
        with self.stream:
            incoming = cp.empty((TILE, TILE), cp.float32)
            incoming.set(page.data, stream=self.stream)
            page.sent.record(self.stream)
            self.image[row, col] += incoming
            self.weight[row, col] += 1.0
        self.tiles += 1

    def render(self):
        with self.stream:
            mean = self.image / cp.maximum(self.weight, 1.0)[:, :, None, None]
            return mean.transpose(0, 2, 1, 3).reshape(self.side * TILE, self.side * TILE).get()


def main(side=4, exposures=6):
    rng = np.random.default_rng(57)
    mosaic = Mosaic(side)
    for _ in range(exposures):
        for row in range(side):
            for col in range(side):
                mosaic.add(row, col, rng.random((TILE, TILE), dtype=np.float32))
    print(mosaic.render().mean())


if __name__ == "__main__":
    main()
