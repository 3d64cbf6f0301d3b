import argparse
from dataclasses import dataclass

import cupy as cp
import numpy as np
import rmm
from pylibraft.common import DeviceResources
from pylibraft.distance import pairwise_distance


@dataclass
class ClusterModel:
    centers: cp.ndarray
    inertia: float
    iterations: int


class KMeansSolver:
    """Lloyd iterations with the distances from RAFT and the updates from CuPy."""

    def __init__(self, n_clusters, max_iter=50, tol=1e-4, metric="sqeuclidean"):
        self.n_clusters = n_clusters
        self.max_iter = max_iter
        self.tol = tol
        self.metric = metric
        self._stream = cp.cuda.Stream(non_blocking=True)
        self._handle = DeviceResources(stream=self._stream.ptr)

    def _initial_centers(self, X, seed):
        rng = np.random.default_rng(seed)
        rows = rng.choice(X.shape[0], self.n_clusters, replace=False)
        return X[cp.asarray(rows)].copy()

    def _assign(self, X, centers, distances):
        cp.cuda.get_current_stream().synchronize()
        pairwise_distance(X, centers, out=distances, metric=self.metric, handle=self._handle)
        labels = distances.argmin(axis=1)
        inertia = distances.min(axis=1).sum()
        return labels, inertia

    def _update(self, X, labels, centers):
        sums = cp.zeros_like(centers)
        counts = cp.zeros(self.n_clusters, dtype=X.dtype)
        cp.add.at(sums, labels, X)
        cp.add.at(counts, labels, cp.ones(X.shape[0], dtype=X.dtype))
        empty = counts == 0
        updated = sums / cp.maximum(counts, 1)[:, None]
        return cp.where(empty[:, None], centers, updated)

    def fit(self, X, seed=0):
        X = cp.ascontiguousarray(cp.asarray(X, dtype=cp.float32))
        centers = self._initial_centers(X, seed)
        distances = cp.empty((X.shape[0], self.n_clusters), dtype=cp.float32)

        inertia = np.inf
        for iteration in range(1, self.max_iter + 1):
            labels, total = self._assign(X, centers, distances)
            centers = self._update(X, labels, centers)
            previous, inertia = inertia, float(total)
            if previous - inertia < self.tol * inertia:
                break
        self._handle.sync()
        return ClusterModel(centers, inertia, iteration)

    def predict(self, model, X):
        X = cp.ascontiguousarray(cp.asarray(X, dtype=cp.float32))
        distances = cp.empty((X.shape[0], self.n_clusters), dtype=cp.float32)
        labels, _ = self._assign(X, model.centers, distances)
        return cp.asnumpy(labels)


def make_blobs(samples, features, centers, seed):
    rng = np.random.default_rng(seed)
    means = rng.normal(0, 10, (centers, features))
    which = rng.integers(0, centers, samples)
    return (means[which] + rng.normal(0, 1, (samples, features))).astype(np.float32), which


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--clusters", type=int, default=128)
    args = parser.parse_args()

    rmm.reinitialize(pool_allocator=True)
    X, _ = make_blobs(args.samples, args.features, args.clusters, seed=11)
    solver = KMeansSolver(args.clusters)
    model = solver.fit(X)
    labels = solver.predict(model, X[:1000])
    print(model.inertia, model.iterations, np.bincount(labels)[:10])


if __name__ == "__main__":
    main()
