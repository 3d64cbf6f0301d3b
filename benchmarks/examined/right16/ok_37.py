"""Chunked saxpy over arrays larger than the device budget (Numba)."""
from __future__ import annotations

import numpy as np
from numba import cuda


@cuda.jit
def _saxpy(alpha, x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = alpha * x[i] + y[i]


class _Buffer:
    def __init__(self, size: int):
        self.size = size
        self.host_x = cuda.pinned_array(size, dtype=np.float32)
        self.host_y = cuda.pinned_array(size, dtype=np.float32)
        self.dev_x = cuda.device_array(size, dtype=np.float32)
        self.dev_y = cuda.device_array(size, dtype=np.float32)
        self.read = cuda.event(timing=False)
        self.written = cuda.event(timing=False)
        self.span: tuple[int, int] | None = None


class ChunkedSaxpy:
    def __init__(self, chunk: int, depth: int = 3):
        self.chunk = chunk
        self._in = cuda.stream()
        self._run = cuda.stream()
        self._out = cuda.stream()
        self._buffers = [_Buffer(chunk) for _ in range(depth)]
        cuda.synchronize()

    def _finish(self, buf: _Buffer, out: np.ndarray) -> None:
        if buf.span is None:
            return
        lo, hi = buf.span
        buf.written.synchronize()
        out[lo:hi] = buf.host_y[: hi - lo]
        buf.span = None

    def _start(self, buf: _Buffer, alpha: float, x: np.ndarray, y: np.ndarray, lo: int, hi: int) -> None:
        count = hi - lo
        buf.host_x[:count] = x[lo:hi]
        buf.host_y[:count] = y[lo:hi]
        buf.dev_x.copy_to_device(buf.host_x, stream=self._in)
        buf.dev_y.copy_to_device(buf.host_y, stream=self._in)
        buf.read.record(self._in)
        buf.read.wait(self._run)
        _saxpy[(count + 255) // 256, 256, self._run](np.float32(alpha), buf.dev_x, buf.dev_y, count)
        buf.written.record(self._run)
        buf.written.wait(self._out)
        buf.dev_y.copy_to_host(buf.host_y, stream=self._out)
        buf.written.record(self._out)
        buf.span = (lo, hi)

    def __call__(self, alpha: float, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if x.shape != y.shape or x.ndim != 1:
            raise ValueError("x and y must be vectors of one length")
        out = np.empty_like(y)
        try:
            for number, lo in enumerate(range(0, len(x), self.chunk)):
                buf = self._buffers[number % len(self._buffers)]
                self._finish(buf, out)
                self._start(buf, alpha, x, y, lo, min(lo + self.chunk, len(x)))
            for buf in self._buffers:
                self._finish(buf, out)
        finally:
            for stream in (self._in, self._run, self._out):
                stream.synchronize()
            for buf in self._buffers:
                buf.span = None
        return out


def main() -> None:
    rng = np.random.default_rng(0)
    saxpy = ChunkedSaxpy(chunk=1 << 18)
    for size in (1_000_000, 100, 3 << 18):
        x = rng.random(size, dtype=np.float32)
        y = rng.random(size, dtype=np.float32)
        print(size, float(np.abs(saxpy(2.5, x, y) - (np.float32(2.5) * x + y)).max()))


if __name__ == "__main__":
    main()
