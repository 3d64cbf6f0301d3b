import threading

import cupy as cp
import numpy as np


def score_chunk(weights, chunk):
    """Called in worker threads; everything goes to the thread's default stream."""
    with cp.cuda.Stream.ptds:
        w = cp.asarray(weights)
        x = cp.asarray(chunk)
        z = x @ w
        p = 1.0 / (1.0 + cp.exp(-z))
        return p.get()


class ParallelScorer:
    def __init__(self, weights, workers=4):
        self.weights = weights
        self.workers = workers

    def __call__(self, features):
        parts = np.array_split(features, self.workers)
        results = [None] * self.workers
        errors = []

        def work(k):
            try:
                results[k] = score_chunk(self.weights, parts[k])
            except Exception as exc:
                errors.append(exc)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(self.workers)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if errors:
            raise errors[0]
        return np.concatenate(results)


if __name__ == "__main__":
    rng = np.random.default_rng(9)
    scorer = ParallelScorer(rng.standard_normal(32))
    for _ in range(4):
        print(scorer(rng.standard_normal((10000, 32))).mean())
