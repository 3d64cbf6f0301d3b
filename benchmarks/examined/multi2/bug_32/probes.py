import cupy as cp


class Probe:
    """Statistics of a device field by CuPy, gathered on a stream of its own."""

    def __init__(self, bins=64):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.bins = bins
        self.rows = []
        self._kept = []

    def look(self, field):
        with self.stream:
            a = cp.asarray(field)
            row = cp.empty(3, dtype=cp.float32)
            row[0] = a.mean()
            row[1] = a.std()
            row[2] = cp.abs(a).max()
        self._kept.append(a)
        self.rows.append(row)

    def report(self):
        self.stream.synchronize()
        return cp.asnumpy(cp.stack(self.rows))
