import cupy as cp

_dot = cp.ReductionKernel(
    "float32 a, float32 b", "float32 y", "a * b", "a + b", "y = a", "0", "dot2"
)


class Correlator:
    def __init__(self, store, rota, count):
        self.store = store
        self.rota = rota
        self.table = cp.zeros((count, count), dtype=cp.float32)

    def pair(self, i, j):
        a, b = self.store.get(i), self.store.get(j)
        stream = self.rota.take()
        with stream, a.reading(stream) as x, b.reading(stream) as y:
            _dot(x, y, self.table[i, j])

    def all_pairs(self):
        n = len(self.table)
        for i in range(n):
            for j in range(i, n):
                self.pair(i, j)
        self.rota.drain()
        return cp.asnumpy(self.table)
