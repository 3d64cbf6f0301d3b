import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

import cupy as cp
import numpy as np


class Table:
    def __init__(self, host):
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            self.values = cp.asarray(host)
            self.norms = cp.linalg.norm(self.values, axis=1)
        self.stream = stream
        self.ready = stream.record()


class SearchWorker:
    def __init__(self):
        self.local = threading.local()

    @property
    def stream(self):
        if not hasattr(self.local, "stream"):
            self.local.stream = cp.cuda.Stream(non_blocking=True)
        return self.local.stream

    def search(self, table, queries, k):
        stream = self.stream
        stream.wait_event(table.ready)
        with stream:
            q = cp.asarray(queries)
            scores = (q @ table.values.T) / table.norms
            best = cp.argpartition(-scores, k, axis=1)[:, :k]
            host = best.get(stream=stream)
            stream.synchronize()
        return host


class SearchIndex:
    def __init__(self, host, threads=4):
        self.table = Table(host)
        self.worker = SearchWorker()
        self.pool = ThreadPoolExecutor(threads)

    def query(self, batches, k=10):
        futures = {self.pool.submit(self.worker.search, self.table, q, k): i for i, q in enumerate(batches)}
        found = [None] * len(batches)
        for future in as_completed(futures):
            found[futures[future]] = future.result()
        return found

    def rebuild(self, host):
        self.table = Table(host)

    def close(self):
        self.pool.shutdown()
        self.table.stream.synchronize()


def main():
    rng = np.random.default_rng(0)
    make = lambda n: rng.normal(size=(n, 128)).astype(np.float32)
    index = SearchIndex(make(100_000))
    hits = index.query([make(64) for _ in range(16)])
    index.rebuild(make(50_000))
    hits += index.query([make(64) for _ in range(16)])
    index.close()
    return sum(int(h[0, 0]) for h in hits)


if __name__ == "__main__":
    print(main())
