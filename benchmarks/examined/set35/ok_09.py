"""Stencil sweeps in Numba: two halves of a field, exchanged through a border kernel."""
import numpy as np
from numba import cuda


@cuda.jit
def _sweep(src, dst, alpha):
    y, x = cuda.grid(2)
    h, w = src.shape
    if y < 1 or x < 1 or y >= h - 1 or x >= w - 1:
        return
    lap = src[y - 1, x] + src[y + 1, x] + src[y, x - 1] + src[y, x + 1] - 4.0 * src[y, x]
    dst[y, x] = src[y, x] + alpha * lap


@cuda.jit
def _exchange(upper, lower):
    x = cuda.grid(1)
    if x >= upper.shape[1]:
        return
    last = upper.shape[0] - 1
    upper[last, x] = lower[1, x]
    lower[0, x] = upper[last - 1, x]


class Half:
    def __init__(self, rows: int, cols: int, seed: int):
        rng = np.random.default_rng(seed)
        initial = rng.random((rows, cols), dtype=np.float32)
        self.stream = cuda.stream()
        self.front = cuda.to_device(initial)
        self.back = cuda.to_device(initial)
        self.block = (16, 32)
        self.grid = ((rows + 15) // 16, (cols + 31) // 32)

    def sweep(self, alpha: float) -> None:
        _sweep[self.grid, self.block, self.stream](self.front, self.back, np.float32(alpha))
        self.front, self.back = self.back, self.front


class Field:
    """Each half sweeps on its own stream; the border kernel runs on the default stream."""

    def __init__(self, rows: int, cols: int):
        self.upper = Half(rows, cols, 1)
        self.lower = Half(rows, cols, 2)
        self.threads = 256
        self.blocks = (cols + self.threads - 1) // self.threads

    def advance(self, steps: int, alpha: float = 0.2) -> None:
        for _ in range(steps):
            self.upper.sweep(alpha)
            self.lower.sweep(alpha)
            _exchange[self.blocks, self.threads](self.upper.front, self.lower.front)

    def snapshot(self) -> np.ndarray:
        top = self.upper.front.copy_to_host()
        bottom = self.lower.front.copy_to_host()
        return np.concatenate([top[:-1], bottom[1:]])


class Recorder:
    def __init__(self, field: Field, interval: int):
        self.field = field
        self.interval = interval
        self.energy = []

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self.field.advance(self.interval)
            self.energy.append(float(np.square(self.field.snapshot()).mean()))


def main() -> None:
    recorder = Recorder(Field(rows=2048, cols=4096), interval=25)
    recorder.run(8)
    print(recorder.energy)


if __name__ == "__main__":
    main()
