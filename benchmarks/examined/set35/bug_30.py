"""Nearest-centroid scoring with pylibraft on a dedicated stream."""
from typing import Iterator, List

import cupy as cp
import numpy as np
from pylibraft.common import DeviceResources
from pylibraft.distance import pairwise_distance


class CentroidScorer:
    """Assigns rows to centroids; the distance computation has its own resources."""

    def __init__(self, centroids: np.ndarray, metric: str = "euclidean"):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.resources = DeviceResources(stream=self.stream.ptr)
        self.metric = metric
        self.centroids = cp.asarray(centroids, dtype=cp.float32, order="C")
        self.radius = cp.full(centroids.shape[0], cp.inf, dtype=cp.float32)
        cp.cuda.get_current_stream().synchronize()

    def distances(self, rows: cp.ndarray) -> cp.ndarray:
        out = cp.empty((rows.shape[0], self.centroids.shape[0]), dtype=cp.float32)
        self.stream.wait_event(cp.cuda.get_current_stream().record())
        pairwise_distance(
            rows, self.centroids, out=out, metric=self.metric, handle=self.resources
        )
        return out

    def fit_radius(self, rows: cp.ndarray, quantile: float = 0.99) -> None:
        d = self.distances(rows)
        self.resources.sync()
        labels = d.argmin(axis=1)
        nearest = d[cp.arange(d.shape[0]), labels]
        for c in range(self.centroids.shape[0]):
            mine = nearest[labels == c]
            if mine.size:
                self.radius[c] = cp.quantile(mine, quantile)

    def predict(self, rows: cp.ndarray) -> cp.ndarray:
        d = self.distances(rows)
        labels = d.argmin(axis=1).astype(cp.int32)
        nearest = d.min(axis=1)
        labels[nearest > self.radius[labels]] = -1
        return labels


def normalize(rows: cp.ndarray) -> cp.ndarray:
    norms = cp.linalg.norm(rows, axis=1, keepdims=True)
    return rows / cp.maximum(norms, 1e-6)


def chunks(data: np.ndarray, size: int) -> Iterator[np.ndarray]:
    for start in range(0, data.shape[0], size):
        yield data[start:start + size]


def assign(scorer: CentroidScorer, data: np.ndarray, size: int = 65536) -> np.ndarray:
    parts: List[cp.ndarray] = []
    for chunk in chunks(data, size):
        rows = normalize(cp.asarray(chunk, dtype=cp.float32))
        parts.append(scorer.predict(rows))
    return cp.asnumpy(cp.concatenate(parts))


def main() -> None:
    rng = np.random.default_rng(7)
    data = rng.standard_normal((500_000, 128), dtype=np.float32)
    centroids = data[rng.choice(data.shape[0], 512, replace=False)]
    centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    scorer = CentroidScorer(centroids)
    scorer.fit_radius(normalize(cp.asarray(data[:65536])))
    labels = assign(scorer, data)
    print(np.bincount(labels[labels >= 0], minlength=512)[:10], int((labels < 0).sum()))


if __name__ == "__main__":
    main()
