"""Nearest prototype lookup: CuPy preprocessing followed by a RAFT distance call."""
import cupy as cp
import numpy as np
from pylibraft.common import DeviceResources
from pylibraft.distance import pairwise_distance


class PrototypeIndex:
    def __init__(self, prototypes, batch):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.handle = DeviceResources()
        with self.stream:
            self.prototypes = self._normalize(cp.asarray(prototypes, dtype=cp.float32))
            dim = self.prototypes.shape[1]
            self.queries = cp.empty((batch, dim), dtype=cp.float32)
            self.dist = cp.empty((batch, self.prototypes.shape[0]), dtype=cp.float32)
        self.stream.synchronize()

    @staticmethod
    def _normalize(x):
        norm = cp.sqrt(cp.sum(x * x, axis=1, keepdims=True))
        return x / cp.maximum(norm, 1e-12)

    def _prepare(self, rows):
        with self.stream:
            self.queries[...] = self._normalize(cp.asarray(rows, dtype=cp.float32))

    def lookup(self, rows):
        self._prepare(rows)
        pairwise_distance(
            self.queries,
            self.prototypes,
            out=self.dist,
            metric="euclidean",
            handle=self.handle,
        )
        self.handle.sync()
        with self.stream:
            best = cp.argmin(self.dist, axis=1)
            return best.get(stream=self.stream)


def label_stream(index, batches):
    for rows in batches:
        yield index.lookup(rows)


def main(batch=4096, dim=256, classes=2048, rounds=10):
    rng = np.random.default_rng(7)
    index = PrototypeIndex(rng.random((classes, dim)), batch)
    batches = (rng.random((batch, dim), dtype=np.float32) for _ in range(rounds))
    counts = np.zeros(classes, dtype=np.int64)
    for labels in label_stream(index, batches):
        counts += np.bincount(labels, minlength=classes)
    return counts


if __name__ == "__main__":
    print(main().max())
