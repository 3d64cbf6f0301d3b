"""Cross-correlation bank: spectra are made on one stream and used on another."""
from collections import deque

import cupy as cp
import numpy as np


class InFlight:
    """Keeps arrays until the work that reads them is over."""

    def __init__(self):
        self._held = deque()

    def hold(self, arrays, event):
        self._held.append((event, arrays))
        self.prune()

    def prune(self):
        while self._held and self._held[0][0].done:
            self._held.popleft()

    def drain(self):
        while self._held:
            event, _ = self._held.popleft()
            event.synchronize()


class Correlator:
    def __init__(self, templates):
        self.make = cp.cuda.Stream(non_blocking=True)
        self.match = cp.cuda.Stream(non_blocking=True)
        self.in_flight = InFlight()
        with self.match:
            self.templates = cp.asarray(templates)
            self.best = cp.zeros(len(templates), dtype=cp.float32)

    def feed(self, trace):
        with self.make:
            spectrum = cp.fft.rfft(cp.asarray(trace)).conj()
        made = self.make.record()
        self.match.wait_event(made)
        with self.match:
            score = cp.abs(self.templates * spectrum).max(axis=1)
            cp.maximum(self.best, score, out=self.best)
        self.in_flight.hold([spectrum], self.match.record())

    def result(self):
        with self.match:
            best = self.best.get()
        self.match.synchronize()
        self.in_flight.drain()
        return best


def main(n=1 << 16, bank=64, traces=100):
    rng = np.random.default_rng(0)
    templates = rng.standard_normal((bank, n // 2 + 1)).astype(np.complex64)
    correlator = Correlator(templates)
    for _ in range(traces):
        correlator.feed(rng.standard_normal(n, dtype=np.float32))
    print(correlator.result().argmax())


if __name__ == "__main__":
    main()
