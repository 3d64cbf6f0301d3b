import cupy as cp
import numpy as np


class Canvas:
    """The whole picture on the device; tiles overlap and are blended in."""

    def __init__(self, height, width, tile, overlap):
        self.pixels = cp.zeros((height, width), cp.float32)
        self.weight = cp.zeros((height, width), cp.float32)
        self.tile = tile
        self.step = tile - overlap
        ramp = np.minimum(np.arange(tile) + 1, tile - np.arange(tile)).astype(np.float32)
        ramp = np.minimum(ramp / overlap, 1.0)
        self.window = cp.asarray(ramp[:, None] * ramp[None, :])
        self.kept = []

    def places(self):
        h, w = self.pixels.shape
        for y in range(0, h - self.tile + 1, self.step):
            for x in range(0, w - self.tile + 1, self.step):
                yield slice(y, y + self.tile), slice(x, x + self.tile)

    def blend(self, where, tile):
        self.pixels[where] += self.window * tile
        self.weight[where] += self.window
        self.kept.append(tile)

    def finish(self):
        picture = cp.asnumpy(self.pixels / cp.maximum(self.weight, 1e-6))
        self.kept.clear()
        return picture

    def __len__(self):
        return sum(1 for _ in self.places())

    @property
    def covered(self):
        """Height and width that the tiles reach."""
        h, w = self.pixels.shape
        down = (h - self.tile) // self.step * self.step + self.tile
        across = (w - self.tile) // self.step * self.step + self.tile
        return down, across
