"""ScaNN-style AVQ pass: clusters are gathered on the host and staged to the device one ahead."""
import cupy as cp
import cupyx
import numpy as np


class DeviceResources:
    """Carries the stream on which the algorithms of this handle run."""

    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)

    def sync_stream(self, stream=None):
        (stream or self.stream).synchronize()


class ClusterLoader:
    def __init__(self, res, dataset, labels, n_clusters, copy_stream):
        self.res = res
        self.dataset = dataset
        self.stream = copy_stream
        order = np.argsort(labels, kind="stable")
        counts = np.bincount(labels, minlength=n_clusters)
        bounds = np.concatenate([[0], np.cumsum(counts)])
        self.members = [order[bounds[c]:bounds[c + 1]] for c in range(n_clusters)]
        self.max_rows = int(counts.max())
        dim = dataset.shape[1]
        self.h_cluster = cupyx.empty_pinned((self.max_rows, dim), dtype=np.float32)
        with res.stream:
            self.d_cluster = [cp.empty((self.max_rows, dim), dtype=cp.float32) for _ in range(2)]
        self.slot = 0

    def prefetch(self, label):
        rows = self.members[label]
        n = len(rows)
        np.take(self.dataset, rows, axis=0, out=self.h_cluster[:n])
        dst = self.d_cluster[self.slot][:n]
        dst.set(self.h_cluster[:n], stream=self.res.stream)
        self.res.sync_stream(self.stream)
        self.slot ^= 1
        return dst


def rescale_centroid(res, vectors, centroid, eta):
    """Anisotropic update of one centroid; runs on the stream of the handle."""
    with res.stream:
        norms = cp.linalg.norm(vectors, axis=1, keepdims=True) + 1e-12
        unit = vectors / norms
        par = unit * cp.sum(unit * centroid, axis=1, keepdims=True)
        orth = centroid - par
        target = vectors + (eta - 1.0) * par - orth
        centroid[...] = target.mean(axis=0)


def apply_avq(res, dataset, labels, centroids, eta=2.0):
    n_clusters = centroids.shape[0]
    copy_stream = cp.cuda.Stream(non_blocking=True)
    loader = ClusterLoader(res, dataset, labels, n_clusters, copy_stream)
    todo = [c for c in range(n_clusters) if len(loader.members[c]) > 0]
    vectors = loader.prefetch(todo[0])
    for pos, label in enumerate(todo):
        current = vectors
        rescale_centroid(res, current, centroids[label], eta)
        if pos + 1 < len(todo):
            vectors = loader.prefetch(todo[pos + 1])
    res.sync_stream()
    return centroids


def main():
    rng = np.random.default_rng(7)
    data = rng.standard_normal((400_000, 96), dtype=np.float32)
    labels = rng.integers(0, 256, data.shape[0])
    res = DeviceResources()
    centroids = cp.asarray(rng.standard_normal((256, 96), dtype=np.float32))
    cp.cuda.Stream.null.synchronize()
    out = apply_avq(res, data, labels, centroids)
    print(cp.asnumpy(out).std())


if __name__ == "__main__":
    main()
