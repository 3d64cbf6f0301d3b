"""Brute-force k nearest neighbours with pylibraft and CuPy, in tiles of queries."""
import argparse

import cupy as cp
import numpy as np
from pylibraft.common import DeviceResources
from pylibraft.distance import pairwise_distance


class BruteForceIndex:
    def __init__(self, dataset, metric="sqeuclidean", tile=2048):
        self.dataset = cp.asarray(dataset, dtype=cp.float32)
        self.metric = metric
        self.tile = tile
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.handle = DeviceResources(stream=self.stream.ptr)
        self.distances = cp.empty((tile, self.dataset.shape[0]), dtype=cp.float32)
        cp.cuda.Stream.null.synchronize()

    def _tile_distances(self, queries):
        out = self.distances[:queries.shape[0]]
        pairwise_distance(queries, self.dataset, out=out, metric=self.metric,
                          handle=self.handle)
        return out

    def search(self, queries_host, k):
        n = queries_host.shape[0]
        indices = np.empty((n, k), dtype=np.int64)
        distances = np.empty((n, k), dtype=np.float32)
        for begin in range(0, n, self.tile):
            end = min(begin + self.tile, n)
            queries = cp.asarray(queries_host[begin:end], dtype=cp.float32)
            cp.cuda.Stream.null.synchronize()
            tile = self._tile_distances(queries)
            part = cp.argpartition(tile, k, axis=1)[:, :k]
            value = cp.take_along_axis(tile, part, axis=1)
            order = cp.argsort(value, axis=1)
            indices[begin:end] = cp.asnumpy(cp.take_along_axis(part, order, axis=1))
            distances[begin:end] = cp.asnumpy(cp.take_along_axis(value, order, axis=1))
        return distances, indices


def recall(found, truth):
    hits = sum(len(np.intersect1d(a, b)) for a, b in zip(found, truth))
    return hits / truth.size


def numpy_search(dataset, queries, k):
    d = (np.square(queries).sum(1)[:, None] + np.square(dataset).sum(1)[None, :]
         - 2.0 * queries @ dataset.T)
    return np.argsort(d, axis=1)[:, :k]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--k", type=int, default=10)
    args = parser.parse_args()

    rng = np.random.default_rng(0)
    dataset = rng.standard_normal((args.rows, args.dim), dtype=np.float32)
    queries = rng.standard_normal((args.queries, args.dim), dtype=np.float32)
    index = BruteForceIndex(dataset)
    distances, indices = index.search(queries, args.k)
    sample = rng.choice(args.queries, 32, replace=False)
    truth = numpy_search(dataset, queries[sample], args.k)
    print("mean distance", distances.mean(), "recall", recall(indices[sample], truth))


if __name__ == "__main__":
    main()
