import cupy as cp
import numpy as np
from cuvs.common import Resources
from cuvs.neighbors import brute_force


class Searcher:
    """Brute force search with queries and results on the resources' stream."""

    def __init__(self, dataset, queries, k):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.resources = Resources(stream=self.stream.ptr)
        with self.stream:
            self.dataset = cp.asarray(dataset)
            self.queries = cp.empty((queries, dataset.shape[1]), cp.float32)
            self.distances = cp.empty((queries, k), cp.float32)
            self.neighbors = cp.empty((queries, k), cp.int64)
        self.index = brute_force.build(self.dataset, metric="sqeuclidean", resources=self.resources)
        self.k = k
        self.resources.sync()

    def refine(self, rounds):
        with self.stream:
            for _ in range(rounds):
                brute_force.search(
                    self.index,
                    self.queries,
                    self.k,
                    neighbors=self.neighbors,
                    distances=self.distances,
                    resources=self.resources,
                )
                weight = cp.exp(-self.distances)[:, :, None]
                near = self.dataset[self.neighbors]
                self.queries[...] = (weight * near).sum(1) / weight.sum(1)
            return self.queries

    def __call__(self, queries, rounds=3):
        with self.stream:
            self.queries[...] = cp.asarray(queries)
            result = self.refine(rounds).get()
        self.resources.sync()
        return result


def main():
    rng = np.random.default_rng(0)
    searcher = Searcher(rng.standard_normal((50_000, 32)).astype(np.float32), 256, 16)
    for _ in range(5):
        q = rng.standard_normal((256, 32)).astype(np.float32)
        moved = searcher(q)
        print(np.abs(moved - q).mean())


if __name__ == "__main__":
    main()
