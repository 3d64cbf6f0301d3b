"""Matched filter service: requests are handled by a worker thread."""
import queue
import threading

import cupy as cp
import numpy as np

N = 1 << 20


class MatchedFilter:
    """Scores incoming strain data against one template."""

    def __init__(self, template):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.template = cp.asarray(template)
        self.data = cp.empty(N, cp.float32)
        self.requests = queue.Queue()
        self.answers = queue.Queue()
        self.worker = threading.Thread(target=self._serve, daemon=True)
        self.worker.start()

    def _serve(self):
        while True:
            scale = self.requests.get()
            if scale is None:
                return
            snr = (self.data * self.template).sum() / scale
            self.answers.put(float(snr))

    def score(self, strain, scale):
        self.data[...] = cp.asarray(strain)
        self.data -= self.data.mean()
        self.requests.put(scale)
        return self.answers.get()

    def close(self):
        self.requests.put(None)
        self.worker.join()


def main():
    rng = np.random.default_rng(4)
    template = np.sin(np.arange(N, dtype=np.float32) * 0.01)
    service = MatchedFilter(template)
    for k in range(30):
        strain = rng.standard_normal(N, dtype=np.float32) + 0.1 * k * template
        print(k, service.score(strain, np.sqrt(N)))
    service.close()


if __name__ == "__main__":
    main()
