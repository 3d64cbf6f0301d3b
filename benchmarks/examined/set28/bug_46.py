"""k-means++ seeding on a RAFT handle's stream: distances with pylibraft, sampling with CuPy."""
import cupy as cp
import cupyx
import numpy as np
from pylibraft.common import DeviceResources
from pylibraft.distance import pairwise_distance

_search_cdf = cp.ElementwiseKernel(
    "raw float64 cdf, int64 n, float64 u",
    "int64 index",
    """
    double target = u * cdf[n - 1];
    long long lo = 0, hi = n - 1;
    while (lo < hi) {
        long long mid = (lo + hi) / 2;
        if (cdf[mid] < target) lo = mid + 1; else hi = mid;
    }
    index = lo;
    """,
    "search_cdf",
)


class KMeansPlusPlus:
    def __init__(self, points, clusters, seed=0):
        self.n, self.dim = points.shape
        self.clusters = clusters
        self.rng = np.random.default_rng(seed)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.handle = DeviceResources(self.stream.ptr)
        with self.stream:
            self.points = cp.asarray(points)
            self.centroids = cp.empty((clusters, self.dim), dtype=cp.float32)
            self.distance = cp.empty((self.n, 1), dtype=cp.float32)
            self.min_dist = cp.full(self.n, cp.inf, dtype=cp.float64)
            self.cdf = cp.empty(self.n, dtype=cp.float64)
            self.d_index = cp.zeros(1, dtype=cp.int64)
        self.h_index = cupyx.zeros_pinned(1, dtype=np.int64)
        self.stream.synchronize()

    def _update_distances(self, k):
        pairwise_distance(
            self.points,
            self.centroids[k : k + 1],
            out=self.distance,
            metric="sqeuclidean",
            handle=self.handle,
        )
        with self.stream:
            cp.minimum(self.min_dist, self.distance[:, 0], out=self.min_dist)

    def _sample(self, u):
        cp.cumsum(self.min_dist, out=self.cdf)
        with self.stream:
            _search_cdf(self.cdf, self.n, u, self.d_index)
            self.d_index.get(stream=self.stream, out=self.h_index, blocking=False)
        return int(self.h_index[0])

    def _take(self, k, index):
        with self.stream:
            self.centroids[k] = self.points[index]

    def fit(self):
        self._take(0, int(self.rng.integers(self.n)))
        for k in range(1, self.clusters):
            self._update_distances(k - 1)
            index = self._sample(float(self.rng.random()))
            self._take(k, index)
        return self.centroids.get(stream=self.stream)


def main():
    rng = np.random.default_rng(1)
    centres = rng.normal(scale=8.0, size=(64, 96))
    points = centres[rng.integers(0, 64, 500_000)] + rng.normal(size=(500_000, 96))
    print(KMeansPlusPlus(points.astype(np.float32), clusters=64).fit().std(axis=0)[:4])


if __name__ == "__main__":
    main()
