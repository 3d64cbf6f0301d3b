"""Lazily created staging and device buffers owned by an object that drains on close."""
import cupy as cp
import cupyx
import numpy as np


class LazyStage:
    """Grows its buffers on demand; the old ones go only when nothing uses them."""

    def __init__(self):
        self._stream = None
        self._host = None
        self._dev = None

    @property
    def stream(self):
        if self._stream is None:
            self._stream = cp.cuda.Stream(non_blocking=True)
        return self._stream

    def _ensure(self, n):
        self.stream.synchronize()
        if self._host is None or self._host.size < n:
            self._host = cupyx.empty_pinned(n, np.float32)
            with self.stream:
                self._dev = cp.empty(n, cp.float32)

    def upload(self, values):
        n = values.size
        self._ensure(n)
        self._host[:n] = values.ravel()
        self._dev[:n].set(self._host[:n], stream=self.stream)
        return self._dev[:n]

    def close(self):
        if self._stream is not None:
            self._stream.synchronize()
        self._host = self._dev = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __del__(self):
        self.close()


def entropy(stage, values):
    x = stage.upload(values)
    with stage.stream:
        p = x / x.sum()
        return -(p * cp.log2(p + 1e-12)).sum()


def main():
    rng = np.random.default_rng(0)
    with LazyStage() as stage:
        results = [entropy(stage, rng.random(int(n)).astype(np.float32))
                   for n in (1e3, 1e5, 5e4, 2e6, 1e4)]
    return [float(r) for r in results]


if __name__ == "__main__":
    print(main())
