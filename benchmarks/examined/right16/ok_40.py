"""Iterative solver whose residual is published through mapped memory (Numba)."""
from __future__ import annotations

import numpy as np
from numba import cuda


@cuda.jit
def _jacobi(x, b, out, n):
    i = cuda.grid(1)
    if i < n:
        left = x[i - 1] if i > 0 else 0.0
        right = x[i + 1] if i < n - 1 else 0.0
        out[i] = (b[i] + left + right) / 2.5


@cuda.jit
def _residual(x, b, slot, n):
    i = cuda.grid(1)
    if i < n:
        left = x[i - 1] if i > 0 else 0.0
        right = x[i + 1] if i < n - 1 else 0.0
        cuda.atomic.max(slot, 0, abs(b[i] + left + right - 2.5 * x[i]))


@cuda.jit
def _reset(slot):
    slot[0] = 0.0


@cuda.jit
def _publish(worst, slot):
    slot[0] = worst[0]


class JacobiSolver:
    def __init__(self, n: int, sweeps: int = 20, window: int = 2):
        self.n, self.sweeps, self.window = n, sweeps, window
        self._stream = cuda.stream()
        self._x = cuda.device_array(n, dtype=np.float64)
        self._y = cuda.device_array(n, dtype=np.float64)
        self._b = cuda.device_array(n, dtype=np.float64)
        self._worst = cuda.device_array(1, dtype=np.float64)
        self._published = [cuda.mapped_array(1, dtype=np.float64) for _ in range(window)]
        self._marks = [cuda.event(timing=False) for _ in range(window)]
        self._grid = (n + 255) // 256
        cuda.synchronize()

    def _round(self, slot: int) -> None:
        stream = self._stream
        for _ in range(self.sweeps):
            _jacobi[self._grid, 256, stream](self._x, self._b, self._y, self.n)
            self._x, self._y = self._y, self._x
        _reset[1, 1, stream](self._worst)
        _residual[self._grid, 256, stream](self._x, self._b, self._worst, self.n)
        _publish[1, 1, stream](self._worst, self._published[slot])
        self._marks[slot].record(stream)

    def solve(self, b: np.ndarray, tolerance: float, max_rounds: int = 1000) -> tuple[np.ndarray, int]:
        if b.shape != (self.n,):
            raise ValueError("right-hand side has the wrong length")
        rhs = np.array(b, dtype=np.float64)
        zeros = np.zeros(self.n)
        self._b.copy_to_device(rhs, stream=self._stream)
        self._x.copy_to_device(zeros, stream=self._stream)
        rounds = 0
        try:
            for slot in range(self.window):
                self._round(slot)
            while rounds < max_rounds:
                slot = rounds % self.window
                self._marks[slot].synchronize()
                worst = float(self._published[slot][0])
                rounds += 1
                if worst <= tolerance:
                    break
                self._round(slot)
        finally:
            self._stream.synchronize()
        return self._x.copy_to_host(), rounds


def main() -> None:
    rng = np.random.default_rng(0)
    solver = JacobiSolver(100_000)
    for scale in (1.0, 5.0):
        b = scale * rng.random(100_000)
        x, rounds = solver.solve(b, 1e-9)
        left = np.concatenate([[0.0], x[:-1]])
        right = np.concatenate([x[1:], [0.0]])
        print(rounds, float(np.abs(2.5 * x - left - right - b).max()))


if __name__ == "__main__":
    main()
