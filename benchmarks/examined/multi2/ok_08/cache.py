import cupy as cp


class TileCache:
    """Direct-mapped cache of tiles; uploads go through a stream of their own."""

    def __init__(self, source, ways):
        self.source = source
        self.ways = ways
        t = source.tile
        self.mem = cp.zeros((ways, t, t), dtype=cp.float32)
        self.tags = [-1] * ways
        self.up = cp.cuda.Stream()
        self.filled = 0

    def __call__(self, i):
        w = i % self.ways
        if self.tags[w] != i:
            self.mem[w].set(self.source[i], stream=self.up)
            self.tags[w] = i
            self.filled += 1
        return self.mem[w]

    @property
    def share(self):
        """Part of the source that fits."""
        return min(1.0, self.ways / len(self.source))

    @property
    def upload_bytes(self):
        return self.filled * self.source.tile ** 2 * 4

    def holds(self, i):
        return self.tags[i % self.ways] == i

    def conflicts(self, ids):
        seen = {}
        for i in ids:
            seen.setdefault(i % self.ways, set()).add(i)
        return sum(len(v) - 1 for v in seen.values())
