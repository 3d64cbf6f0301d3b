import cupy as cp
import numpy as np


class Handle:
    """Resources of one solver: a stream and its scratch memory."""

    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self._scratch = {}

    def scratch(self, name, shape, dtype):
        key = (name, shape, np.dtype(dtype))
        if key not in self._scratch:
            with self.stream:
                self._scratch[key] = cp.empty(shape, dtype)
        return self._scratch[key]

    def sync(self):
        self.stream.synchronize()


class DiscreteSampler:

    def __init__(self, handle, seed=0):
        self.handle = handle
        with handle.stream:
            self.rng = cp.random.default_rng(seed)

    def _clip(self, weights):
        w = self.handle.scratch("w", weights.shape, np.float64)
        with self.handle.stream:
            cp.maximum(weights, 0.0, out=w)
        return w

    def _scan(self, w):
        cdf = self.handle.scratch("cdf", w.shape, w.dtype)
        cp.cumsum(w, out=cdf)
        return cdf

    def discrete(self, weights, n_samples):
        w = self._clip(weights)
        cdf = self._scan(w)
        with self.handle.stream:
            u = self.rng.random(n_samples) * cdf[-1]
            return cp.searchsorted(cdf, u, side="right")


def kmeans_plus_plus(handle, points, n_clusters, seed=0):
    sampler = DiscreteSampler(handle, seed)
    with handle.stream:
        centers = cp.empty((n_clusters, points.shape[1]), points.dtype)
        centers[0] = points[0]
        dist = ((points - centers[0]) ** 2).sum(axis=1)
    for k in range(1, n_clusters):
        idx = sampler.discrete(dist, 1)
        with handle.stream:
            centers[k] = points[idx[0]]
            cand = ((points - centers[k]) ** 2).sum(axis=1)
            cp.minimum(dist, cand, out=dist)
    handle.sync()
    return cp.asnumpy(centers)
