"""Worker threads on their per-thread default streams, one collector."""
import queue
import threading

import cupy as cp
import numpy as np


class Sampler(threading.Thread):
    def __init__(self, seed, out, count, size):
        super().__init__(daemon=True)
        self.seed = seed
        self.out = out
        self.count = count
        self.size = size

    def _sample(self, rng):
        x = rng.standard_normal((self.size, self.size), dtype=cp.float32)
        q, r = cp.linalg.qr(x)
        return q * cp.sign(cp.diagonal(r))

    def run(self):
        try:
            with cp.cuda.Device(0), cp.cuda.Stream.ptds as stream:
                rng = cp.random.default_rng(self.seed)
                for _ in range(self.count):
                    sample = self._sample(rng)
                    stream.synchronize()
                    self.out.put(sample)
                    del sample
        finally:
            self.out.put(None)


class Collector:
    def __init__(self, size):
        self.total = cp.zeros((size, size), cp.float64)
        self.seen = 0

    def add(self, sample):
        self.total += sample
        self.seen += 1

    def drain(self, inbox, workers):
        stream = cp.cuda.get_current_stream()
        while workers:
            sample = inbox.get()
            if sample is None:
                workers -= 1
                continue
            self.add(sample)
            stream.synchronize()
            del sample
        return cp.asnumpy(self.total) / max(self.seen, 1)


def main(workers=3, count=20, size=128):
    inbox = queue.Queue(maxsize=4)
    threads = [Sampler(k, inbox, count, size) for k in range(workers)]
    for t in threads:
        t.start()
    with cp.cuda.Stream.ptds:
        mean = Collector(size).drain(inbox, workers)
    for t in threads:
        t.join()
    return np.abs(mean).max()


if __name__ == "__main__":
    print(main())
