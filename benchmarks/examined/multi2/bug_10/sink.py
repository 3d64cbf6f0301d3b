import numpy as np
from numba import cuda


class StatsSink:
    """Keeps mean and contrast of each finished frame."""

    def __init__(self):
        self.stream = cuda.stream()
        self.rows = {}

    def collect(self, lane):
        lane.done.wait(self.stream)
        out = lane.h_out
        self.rows[lane.frame] = (float(out.mean()), float(out.max() - out.min()))

    def table(self):
        return np.array([self.rows[k] for k in sorted(self.rows)])

    def missing(self, n):
        return [i for i in range(n) if i not in self.rows]

    def outliers(self, k=3.0):
        t = self.table()
        mean, std = t.mean(axis=0), t.std(axis=0) + 1e-12
        z = np.abs(t - mean) / std
        return np.nonzero((z > k).any(axis=1))[0].tolist()

    def save(self, path):
        np.savetxt(path, self.table(), header="mean contrast")
