"""Chunked cross-correlation of station records with a reference."""
import cupy as cp
import cupyx
import numpy as np

SAMPLES = 1 << 20
DEPTH = 4


class StationFeed:
    def __init__(self, reference, flush_every=8):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.flush_every = flush_every
        self.pages = [cupyx.empty_pinned(SAMPLES, np.float32) for _ in range(DEPTH)]
        self.count = 0
        with self.stream:
            self.reference = cp.asarray(reference)
            self.record = cp.empty(SAMPLES, cp.float32)
            self.energy = cp.zeros((), cp.float64)

    def feed(self, record):
        if self.count and self.count % self.flush_every == 0:
            self.stream.synchronize()
        page = self.pages[self.count % DEPTH]
        page[:] = record
        self.record.set(page, stream=self.stream)
        with self.stream:
            product = self.record * self.reference
            self.energy += product.sum(dtype=cp.float64)
        self.count += 1

    def close(self):
        self.stream.synchronize()
        return self.energy.item()


def main():
    rng = np.random.default_rng(21)
    feed = StationFeed(rng.standard_normal(SAMPLES, dtype=np.float32))
    for _ in range(100):
        feed.feed(rng.standard_normal(SAMPLES, dtype=np.float32))
    print(feed.close())


if __name__ == "__main__":
    main()
