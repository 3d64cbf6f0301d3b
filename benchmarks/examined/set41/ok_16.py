"""Batched string-distance scoring with numba streams and pinned result buffers."""
import numpy as np
from numba import cuda

WIDTH = 64


@cuda.jit
def hamming(queries, target, scores):
    i = cuda.grid(1)
    if i < queries.shape[0]:
        diff = 0
        for k in range(WIDTH):
            if queries[i, k] != target[k]:
                diff += 1
        scores[i] = diff


class ScoringLane:
    def __init__(self, capacity):
        self.stream = cuda.stream()
        self.h_queries = cuda.pinned_array((capacity, WIDTH), dtype=np.uint8)
        self.h_scores = cuda.pinned_array(capacity, dtype=np.int32)
        self.d_queries = cuda.device_array((capacity, WIDTH), dtype=np.uint8)
        self.d_scores = cuda.device_array(capacity, dtype=np.int32)
        self.d_target = cuda.device_array(WIDTH, dtype=np.uint8)
        self.h_target = cuda.pinned_array(WIDTH, dtype=np.uint8)
        self.capacity = capacity

    def set_target(self, target):
        self.h_target[:] = target
        with self.stream.auto_synchronize() as s:
            self.d_target.copy_to_device(self.h_target, stream=s)

    def score(self, queries):
        n = len(queries)
        self.h_queries[:n] = queries
        threads = 128
        blocks = (self.capacity + threads - 1) // threads
        with self.stream.auto_synchronize() as s:
            self.d_queries.copy_to_device(self.h_queries, stream=s)
            hamming[blocks, threads, s](self.d_queries, self.d_target, self.d_scores)
            self.d_scores.copy_to_host(self.h_scores, stream=s)
        return self.h_scores[:n]


class TopMatches:
    def __init__(self, keep):
        self.keep = keep
        self.scores = np.empty(0, dtype=np.int64)
        self.ids = np.empty(0, dtype=np.int64)

    def merge(self, offset, scores):
        ids = np.arange(offset, offset + len(scores))
        scores = np.concatenate([self.scores, scores.astype(np.int64)])
        ids = np.concatenate([self.ids, ids])
        order = np.argsort(scores, kind="stable")[: self.keep]
        self.scores, self.ids = scores[order], ids[order]


def search(corpus, target, chunk=65536, lanes=2, keep=5):
    workers = [ScoringLane(chunk) for _ in range(lanes)]
    for w in workers:
        w.set_target(target)
    best = TopMatches(keep)
    for k, start in enumerate(range(0, len(corpus), chunk)):
        part = corpus[start: start + chunk]
        best.merge(start, workers[k % lanes].score(part))
    return best


def main():
    rng = np.random.default_rng(6)
    corpus = rng.integers(0, 4, (500_000, WIDTH), dtype=np.uint8)
    best = search(corpus, corpus[1234])
    print(best.ids, best.scores)


if __name__ == "__main__":
    main()
