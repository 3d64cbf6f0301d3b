import cupy as cp
import numpy as np
from pylibraft.common import DeviceResources
from pylibraft.distance import pairwise_distance
from pylibraft.matrix import select_k


class BruteForceIndex:
    """Exact nearest neighbours, scored in row blocks."""

    def __init__(self, dataset: np.ndarray, metric: str = "euclidean", block_rows: int = 4096):
        self.dataset = cp.asarray(dataset, dtype=cp.float32)
        self.metric = metric
        self.block_rows = block_rows
        self.score_stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()

    def _distances(self, block: cp.ndarray) -> cp.ndarray:
        out = cp.empty((block.shape[0], self.dataset.shape[0]), dtype=cp.float32)
        cp.cuda.get_current_stream().synchronize()
        pairwise_distance(block, self.dataset, out=out, metric=self.metric)
        return out

    def search(self, queries: np.ndarray, k: int):
        indices, distances = [], []
        for start in range(0, len(queries), self.block_rows):
            block = cp.asarray(queries[start : start + self.block_rows], dtype=cp.float32)
            scores = self._distances(block)
            with self.score_stream:
                order = cp.argpartition(scores, k, axis=1)[:, :k]
                part = cp.take_along_axis(scores, order, axis=1)
                rank = cp.argsort(part, axis=1)
                indices.append(cp.asnumpy(cp.take_along_axis(order, rank, axis=1)))
                distances.append(cp.asnumpy(cp.take_along_axis(part, rank, axis=1)))
        return np.concatenate(distances), np.concatenate(indices)


class PipelinedIndex(BruteForceIndex):
    """Same search, with one handle for all the calls of a block."""

    def search(self, queries: np.ndarray, k: int):
        handle = DeviceResources()
        found = []
        for start in range(0, len(queries), self.block_rows):
            block = cp.asarray(queries[start : start + self.block_rows], dtype=cp.float32)
            scores = cp.empty((block.shape[0], self.dataset.shape[0]), dtype=cp.float32)
            values = cp.empty((block.shape[0], k), dtype=cp.float32)
            ids = cp.empty((block.shape[0], k), dtype=cp.int64)
            cp.cuda.get_current_stream().synchronize()
            pairwise_distance(block, self.dataset, out=scores, metric=self.metric, handle=handle)
            select_k(scores, k=k, distances=values, indices=ids, select_min=True, handle=handle)
            handle.sync()
            with self.score_stream:
                found.append((cp.asnumpy(values), cp.asnumpy(ids)))
        return tuple(np.concatenate(column) for column in zip(*found))


def recall(a: np.ndarray, b: np.ndarray) -> float:
    hits = [len(np.intersect1d(x, y)) for x, y in zip(a, b)]
    return sum(hits) / a.size
