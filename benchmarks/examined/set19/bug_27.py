"""Lloyd iterations with distances from pylibraft and updates in CuPy."""
import cupy as cp
import numpy as np
from pylibraft.common import DeviceResources
from pylibraft.distance import pairwise_distance


class RaftDistance:
    """Pairwise distances that run on the stream of a RAFT handle."""

    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.handle = DeviceResources(self.stream.ptr)
        self._out = None

    def _workspace(self, rows, cols):
        if self._out is None or self._out.shape != (rows, cols):
            self._out = cp.empty((rows, cols), cp.float32)
        return self._out

    def __call__(self, X, centroids):
        out = self._workspace(X.shape[0], centroids.shape[0])
        self.stream.wait_event(cp.cuda.get_current_stream().record())
        pairwise_distance(X, centroids, out=out, metric="euclidean", handle=self.handle)
        return out


class KMeans:
    def __init__(self, n_clusters, max_iter=25, tol=1e-4, seed=0):
        self.n_clusters = n_clusters
        self.max_iter = max_iter
        self.tol = tol
        self.rng = np.random.default_rng(seed)
        self.distance = RaftDistance()
        self.cluster_centers_ = None
        self.inertia_ = None

    def _init_centers(self, X):
        rows = self.rng.choice(X.shape[0], self.n_clusters, replace=False)
        return X[cp.asarray(rows)].copy()

    def _update(self, X, labels, centers):
        counts = cp.zeros(self.n_clusters, cp.float32)
        sums = cp.zeros_like(centers)
        cp.add.at(counts, labels, 1.0)
        cp.add.at(sums, labels, X)
        filled = cp.where(counts[:, None] > 0, sums / cp.maximum(counts, 1)[:, None], centers)
        return cp.ascontiguousarray(filled)

    def fit(self, X):
        centers = self._init_centers(X)
        previous = np.inf
        for _ in range(self.max_iter):
            distances = self.distance(X, centers)
            labels = distances.argmin(axis=1)
            inertia = float((distances.min(axis=1) ** 2).sum())
            centers = self._update(X, labels, centers)
            if previous - inertia < self.tol * inertia:
                break
            previous = inertia
        self.cluster_centers_ = centers
        self.inertia_ = inertia
        return self


def main():
    rng = np.random.default_rng(1)
    blobs = rng.normal(size=(16, 1, 24)) * 8.0 + rng.normal(size=(16, 20000, 24))
    X = cp.asarray(blobs.reshape(-1, 24).astype(np.float32))
    model = KMeans(16).fit(X)
    print(model.inertia_, model.cluster_centers_.shape)


if __name__ == "__main__":
    main()
