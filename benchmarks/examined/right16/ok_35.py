"""Diffusion time-stepper replayed from a CuPy stream-captured graph."""
from __future__ import annotations

import cupy as cp
import numpy as np

_STEP = cp.RawKernel(
    r"""
extern "C" __global__
void diffuse(const float* src, float* dst, const float* rate, int h, int w) {
    int x = blockDim.x * blockIdx.x + threadIdx.x;
    int y = blockDim.y * blockIdx.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int l = y * w + (x + w - 1) % w, r = y * w + (x + 1) % w;
    int u = ((y + h - 1) % h) * w + x, d = ((y + 1) % h) * w + x;
    int c = y * w + x;
    dst[c] = src[c] + rate[0] * (src[l] + src[r] + src[u] + src[d] - 4.0f * src[c]);
}
""",
    "diffuse",
)


class Diffusion:
    def __init__(self, height: int, width: int, inner: int = 8):
        if inner < 1:
            raise ValueError("inner must be positive")
        self.height, self.width, self.inner = height, width, 2 * inner
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self._a = cp.zeros((height, width), dtype=np.float32)
            self._b = cp.zeros((height, width), dtype=np.float32)
            self._rate = cp.zeros(1, dtype=np.float32)
            self._sub_steps()
            self.stream.synchronize()
            self.stream.begin_capture()
            self._sub_steps()
            self._graph = self.stream.end_capture()

    def _sub_steps(self) -> None:
        grid = ((self.width + 15) // 16, (self.height + 15) // 16)
        src, dst = self._a, self._b
        for _ in range(self.inner):
            _STEP(grid, (16, 16), (src, dst, self._rate, np.int32(self.height), np.int32(self.width)))
            src, dst = dst, src

    def load(self, field: np.ndarray, rate: float) -> None:
        if field.shape != (self.height, self.width):
            raise ValueError("field has the wrong shape")
        with self.stream:
            self._a[...] = cp.asarray(field, dtype=np.float32)
            self._rate.fill(rate)

    def advance(self, count: int = 1) -> None:
        for _ in range(count):
            self._graph.launch(self.stream)

    def total(self) -> float:
        with self.stream:
            return float(self._a.sum(dtype=np.float64))

    def read(self) -> np.ndarray:
        with self.stream:
            return cp.asnumpy(self._a)

    def save_to(self, target: cp.ndarray) -> None:
        caller = cp.cuda.get_current_stream()
        self.stream.wait_event(caller.record())
        with self.stream:
            target[...] = self._a
            finished = self.stream.record()
        caller.wait_event(finished)


def main() -> None:
    rng = np.random.default_rng(0)
    solver = Diffusion(256, 512)
    field = rng.random((256, 512), dtype=np.float32)
    solver.load(field, 0.2)
    field[:] = 0
    print(solver.total())
    solver.advance(20)
    copy = cp.empty((256, 512), dtype=np.float32)
    solver.save_to(copy)
    spread = float(copy.std())
    solver.advance(20)
    print(solver.total(), spread, float(solver.read().std()))


if __name__ == "__main__":
    main()
