"""Light-sheet stitching: tiles uploaded through two pinned pages, blended into a mosaic, synchronized per column."""
import numpy as np
import cupy as cp
import cupyx


class Mosaic:
    def __init__(self, rows, cols, tile, overlap):
        self.step = tile - overlap
        self.tile = tile
        size = (self.step * rows + overlap, self.step * cols + overlap)
        self.sum = cp.zeros(size, cp.float32)
        self.weight = cp.zeros(size, cp.float32)
        ramp = cp.minimum(cp.arange(1, tile + 1), cp.arange(tile, 0, -1)).astype(cp.float32)
        self.taper = ramp[:, None] * ramp[None, :]

    def blend(self, r, c, image):
        y, x = r * self.step, c * self.step
        self.sum[y:y + self.tile, x:x + self.tile] += image * self.taper
        self.weight[y:y + self.tile, x:x + self.tile] += self.taper

    def result(self):
        return self.sum / cp.maximum(self.weight, 1)


class Stitcher:
    PAGES = 2

    def __init__(self, mosaic):
        self.mosaic = mosaic
        self.stream = cp.cuda.Stream(non_blocking=True)
        shape = (mosaic.tile, mosaic.tile)
        self.pages = [cupyx.empty_pinned(shape, dtype=np.float32) for _ in range(self.PAGES)]
        self.count = 0
        cp.cuda.get_current_stream().synchronize()

    def add(self, r, c, tile):
        page = self.pages[self.count % self.PAGES]
        self.count += 1
        page[...] = tile
        with self.stream as s:
            image = cp.empty(page.shape, cp.float32)
            image.set(page, stream=s)
            self.mosaic.blend(r, c, image)

    def column_done(self):
        self.stream.synchronize()


def main(rows=6, cols=8, tile=2048):
    rng = np.random.default_rng(4)
    mosaic = Mosaic(rows, cols, tile, 256)
    stitcher = Stitcher(mosaic)
    for c in range(cols):
        for r in range(rows):
            stitcher.add(r, c, rng.random((tile, tile), dtype=np.float32))
        stitcher.column_done()
    print(float(mosaic.result().mean()))


if __name__ == "__main__":
    main()
