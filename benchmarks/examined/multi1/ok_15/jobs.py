from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Job:
    name: str
    gain: float
    offset: float
    seed: int

    def data(self, n):
        rng = np.random.default_rng(self.seed)
        return rng.standard_normal(n, dtype=np.float32)

    def check(self, n, got):
        want = self.gain * self.data(n) + self.offset
        return float(np.abs(want - got).max())


def make_jobs(count):
    return [
        Job(f"job{i:03d}", gain=1.0 + 0.1 * i, offset=-0.5 * i, seed=i)
        for i in range(count)
    ]
