"""Feature service: estimators run in worker threads on per-thread default streams."""
import queue
import threading
from dataclasses import dataclass

import cupy as cp
import numpy as np


@dataclass
class Request:
    key: int
    block: np.ndarray


@dataclass
class Features:
    key: int
    scores: cp.ndarray
    components: cp.ndarray


class PCAEstimator:
    """Power-iteration PCA; all its CuPy calls use the calling thread's default stream."""

    def __init__(self, components=4, iterations=30):
        self.components = components
        self.iterations = iterations

    def fit_transform(self, block):
        with cp.cuda.Stream.ptds:
            x = cp.asarray(block)
            x -= x.mean(axis=0)
            cov = x.T @ x / np.float32(x.shape[0] - 1)
            basis = cp.eye(x.shape[1], self.components, dtype=cp.float32)
            for _ in range(self.iterations):
                basis = cov @ basis
                basis /= cp.sqrt((basis * basis).sum(axis=0))
            return x @ basis, basis


class EstimatorThread(threading.Thread):
    def __init__(self, requests, results):
        super().__init__(daemon=True)
        self.requests = requests
        self.results = results
        self.estimator = PCAEstimator()

    def run(self):
        while True:
            request = self.requests.get()
            if request is None:
                self.results.put(None)
                return
            scores, components = self.estimator.fit_transform(request.block)
            self.results.put(Features(request.key, scores, components))


class Calibrator(threading.Thread):
    """Collects feature blocks from all workers and keeps running moments."""

    def __init__(self, results, workers, width=4):
        super().__init__()
        self.results = results
        self.workers = workers
        self.width = width
        self.moments = None

    def run(self):
        with cp.cuda.Stream.ptds:
            total = cp.zeros(self.width, dtype=cp.float64)
            square = cp.zeros(self.width, dtype=cp.float64)
            rows, active = 0, self.workers
            kept = []
            while active:
                item = self.results.get()
                if item is None:
                    active -= 1
                    continue
                total += item.scores.sum(axis=0, dtype=cp.float64)
                square += cp.square(item.scores, dtype=cp.float64).sum(axis=0)
                rows += item.scores.shape[0]
                kept.append(item)
            mean = total / rows
            self.moments = cp.stack([mean, square / rows - mean * mean]).get()


def main(workers=3, blocks=48):
    requests, results = queue.Queue(maxsize=8), queue.Queue()
    threads = [EstimatorThread(requests, results) for _ in range(workers)]
    calibrator = Calibrator(results, workers)
    for thread in threads:
        thread.start()
    calibrator.start()
    rng = np.random.default_rng(9)
    for key in range(blocks):
        requests.put(Request(key, rng.normal(size=(100_000, 32)).astype(np.float32)))
    for _ in threads:
        requests.put(None)
    calibrator.join()
    print(calibrator.moments)


if __name__ == "__main__":
    main()
