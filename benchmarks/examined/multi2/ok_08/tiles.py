import cupy as cp
import numpy as np


class TileSource:
    """Big image in page-locked memory, cut into square tiles."""

    def __init__(self, side, tile, seed=0):
        self.side = side
        self.tile = tile
        n = side * side
        mem = cp.cuda.alloc_pinned_memory(n * 4)
        self.image = np.frombuffer(mem, np.float32, n)
        rng = np.random.default_rng(seed)
        per = tile * tile
        for lo in range(0, n, per):
            self.image[lo:lo + per] = rng.random(per, dtype=np.float32)

    def __len__(self):
        return (self.side // self.tile) ** 2

    def __getitem__(self, i):
        per = self.tile * self.tile
        return self.image[i * per:(i + 1) * per].reshape(self.tile, self.tile)

    @property
    def nbytes(self):
        return self.image.nbytes

    def neighbours(self, i):
        per_row = self.side // self.tile
        r, c = divmod(i, per_row)
        for dr, dc in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            u, v = r + dr, c + dc
            if 0 <= u < per_row and 0 <= v < per_row:
                yield u * per_row + v
