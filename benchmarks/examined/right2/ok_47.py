"""Overlapped FIR filtering with separate load and calc streams."""
from collections import deque

import cupy as cp
import numpy as np


class FilterBank:
    def __init__(self, taps, depth=4):
        self.load = cp.cuda.Stream(non_blocking=True)
        self.calc = cp.cuda.Stream(non_blocking=True)
        self.depth = depth
        self._retired = deque()
        with self.calc:
            self.taps = cp.asarray(taps, dtype=cp.float32)

    def _retire(self, array, event):
        self._retired.append((array, event))
        while len(self._retired) > self.depth:
            old, used = self._retired.popleft()
            self.load.wait_event(used)
            del old

    def submit(self, chunk):
        with self.load:
            x = cp.asarray(chunk, dtype=cp.float32)
            ready = self.load.record()
        self.calc.wait_event(ready)
        with self.calc:
            y = cp.convolve(x, self.taps, mode="same")
            used = self.calc.record()
        self._retire(x, used)
        return y

    def fetch(self, y):
        host = y.get(stream=self.calc)
        self.calc.synchronize()
        return host

    def close(self):
        self.calc.synchronize()
        self._retired.clear()


def run(chunks, taps):
    bank = FilterBank(taps)
    pending = deque()
    out = []
    try:
        for chunk in chunks:
            pending.append(bank.submit(chunk))
            if len(pending) > 2:
                out.append(bank.fetch(pending.popleft()))
        while pending:
            out.append(bank.fetch(pending.popleft()))
    finally:
        bank.close()
    return np.concatenate(out)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    data = [rng.standard_normal(1 << 15).astype(np.float32) for _ in range(20)]
    print(run(data, np.hanning(33).astype(np.float32)).std())
