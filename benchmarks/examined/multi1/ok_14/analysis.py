import cupy as cp
import numpy as np

from smooth import Smoother, residual


class PeakFinder:
    def __init__(self, radius=32, sigma=4.0):
        self.smoother = Smoother(radius)
        self.sigma = sigma

    def find(self, trace):
        x = cp.asarray(trace, dtype=cp.float32)
        r, base = residual(x, self.smoother)
        cut = self.sigma * cp.median(cp.abs(r)) * 1.4826
        hits = cp.flatnonzero(r > cut)
        return cp.asnumpy(hits), float(base.mean()), float(cut)


def merge(hits, gap=16):
    if len(hits) == 0:
        return []
    cuts = np.flatnonzero(np.diff(hits) > gap)
    starts = np.r_[hits[0], hits[cuts + 1]]
    stops = np.r_[hits[cuts], hits[-1]]
    return list(zip(starts.tolist(), stops.tolist()))
