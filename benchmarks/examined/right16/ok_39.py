"""Game of life stepped on a created stream and inspected on the legacy stream (Numba)."""
from __future__ import annotations

import numpy as np
from numba import cuda


@cuda.jit
def _life(src, dst):
    y, x = cuda.grid(2)
    h, w = src.shape
    if y < h and x < w:
        alive = 0
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                if dy != 0 or dx != 0:
                    alive += src[(y + dy + h) % h, (x + dx + w) % w]
        if alive == 3 or (alive == 2 and src[y, x] == 1):
            dst[y, x] = 1
        else:
            dst[y, x] = 0


@cuda.jit
def _population(cells, total):
    y, x = cuda.grid(2)
    h, w = cells.shape
    if y < h and x < w and cells[y, x] == 1:
        cuda.atomic.add(total, 0, 1)


@cuda.jit
def _clear(total):
    total[0] = 0


class Life:
    def __init__(self, seed: np.ndarray):
        self.shape = seed.shape
        self._legacy = cuda.legacy_default_stream()
        self._stepper = cuda.stream()
        self._now = cuda.to_device(np.ascontiguousarray(seed, dtype=np.int32), stream=self._legacy)
        self._next = cuda.device_array(seed.shape, dtype=np.int32, stream=self._legacy)
        self._total = cuda.device_array(1, dtype=np.int32, stream=self._legacy)
        self._host_total = cuda.pinned_array(1, dtype=np.int32)
        self._block = (16, 16)
        self._grid = tuple((n + 15) // 16 for n in seed.shape)
        self._legacy.synchronize()

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            _life[self._grid, self._block, self._stepper](self._now, self._next)
            self._now, self._next = self._next, self._now

    def population(self) -> int:
        _clear[1, 1, self._legacy](self._total)
        _population[self._grid, self._block, self._legacy](self._now, self._total)
        self._total.copy_to_host(self._host_total, stream=self._legacy)
        self._legacy.synchronize()
        return int(self._host_total[0])

    def snapshot(self) -> np.ndarray:
        out = np.empty(self.shape, dtype=np.int32)
        self._now.copy_to_host(out, stream=self._legacy)
        self._legacy.synchronize()
        return out

    def stamp(self, pattern: np.ndarray, row: int, col: int) -> None:
        board = self.snapshot()
        h, w = pattern.shape
        board[row : row + h, col : col + w] = pattern
        self._now.copy_to_device(board, stream=self._legacy)
        self._legacy.synchronize()


def main() -> None:
    rng = np.random.default_rng(0)
    life = Life((rng.random((512, 768)) < 0.3).astype(np.int32))
    print(life.population())
    glider = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 1]], dtype=np.int32)
    for round_ in range(5):
        life.step(10)
        life.stamp(glider, 5 * round_, 7 * round_)
        life.step()
        print(round_, life.population(), int(life.snapshot().sum()))


if __name__ == "__main__":
    main()
