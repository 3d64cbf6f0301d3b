"""k-means style assignment with pylibraft distances on an explicit handle."""
import argparse

import cupy as cp
from pylibraft.common import DeviceResources
from pylibraft.distance import pairwise_distance


class DistanceEngine:
    """Shares one handle and one output buffer over all calls."""

    def __init__(self, batch, n_centroids, metric="sqeuclidean"):
        self.metric = metric
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.handle = DeviceResources(stream=self.stream.ptr)
        self.out = cp.empty((batch, n_centroids), dtype=cp.float32)

    def distances(self, x, centroids):
        view = self.out[:x.shape[0]]
        pairwise_distance(x, centroids, out=view, metric=self.metric, handle=self.handle)
        return view

    def close(self):
        self.handle.sync()


class MiniBatchKMeans:
    def __init__(self, k, batch=8192, seed=0):
        self.k = k
        self.batch = batch
        self.rng = cp.random.RandomState(seed)
        self.engine = DistanceEngine(batch, k)
        self.centroids = None
        self.counts = None

    def _init(self, data):
        pick = self.rng.permutation(data.shape[0])[:self.k]
        self.centroids = cp.ascontiguousarray(data[pick])
        self.counts = cp.ones(self.k, dtype=cp.float32)

    def _assign(self, x):
        cp.cuda.get_current_stream().synchronize()
        d = self.engine.distances(x, self.centroids)
        labels = d.argmin(axis=1)
        cost = d.min(axis=1).sum()
        return labels, cost

    def _update(self, x, labels):
        sums = cp.zeros_like(self.centroids)
        cp.add.at(sums, labels, x)
        hits = cp.bincount(labels, minlength=self.k).astype(cp.float32)
        self.counts += hits
        rate = cp.where(hits > 0, hits / self.counts, 0.0)
        mean = sums / cp.maximum(hits, 1.0)[:, None]
        self.centroids += rate[:, None].astype(cp.float32) * (mean - self.centroids)

    def fit(self, data, epochs=2):
        self._init(data)
        history = []
        for _ in range(epochs):
            order = self.rng.permutation(data.shape[0])
            total = cp.zeros((), dtype=cp.float32)
            for lo in range(0, data.shape[0], self.batch):
                x = cp.ascontiguousarray(data[order[lo:lo + self.batch]])
                labels, cost = self._assign(x)
                total += cost
                self._update(x, labels)
            history.append(total)
        self.engine.close()
        return [float(h) / data.shape[0] for h in history]


def blobs(n, dim, k, seed=1):
    rng = cp.random.RandomState(seed)
    centers = rng.uniform(-5, 5, size=(k, dim)).astype(cp.float32)
    which = rng.randint(0, k, size=n)
    noise = rng.standard_normal((n, dim)).astype(cp.float32)
    return centers[which] + noise


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--n", type=int, default=500_000)
    ap.add_argument("--dim", type=int, default=96)
    ap.add_argument("--k", type=int, default=512)
    args = ap.parse_args()
    data = blobs(args.n, args.dim, args.k)
    model = MiniBatchKMeans(args.k)
    print("mean cost per epoch:", model.fit(data))


if __name__ == "__main__":
    main()
