"""Two Numba streams that meet on the legacy default stream."""
import numpy as np
from numba import cuda


@cuda.jit
def blur_left(src, dst):
    i = cuda.grid(1)
    if i < src.size:
        j = i - 1 if i > 0 else i
        dst[i] = 0.5 * (src[i] + src[j])


@cuda.jit
def blur_right(src, dst):
    i = cuda.grid(1)
    if i < src.size:
        j = i + 1 if i + 1 < src.size else i
        dst[i] = 0.5 * (src[i] + src[j])


@cuda.jit
def average(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 0.5 * (a[i] + b[i])


class Smoother:
    def __init__(self, n: int):
        self.main = cuda.legacy_default_stream()
        self.left, self.right = cuda.stream(), cuda.stream()
        self.state = cuda.device_array(n, dtype=np.float32)
        self.a = cuda.device_array(n, dtype=np.float32)
        self.b = cuda.device_array(n, dtype=np.float32)
        self.grid = (n + 255) // 256

    def load(self, values: np.ndarray) -> None:
        self.state.copy_to_device(values)

    def step(self) -> None:
        blur_left[self.grid, 256, self.left](self.state, self.a)
        blur_right[self.grid, 256, self.right](self.state, self.b)
        average[self.grid, 256, self.main](self.a, self.b, self.state)

    def read(self) -> np.ndarray:
        return self.state.copy_to_host()


def main():
    smoother = Smoother(1 << 20)
    smoother.load(np.random.default_rng(0).random(1 << 20, dtype=np.float32))
    for k in range(50):
        smoother.step()
        if k % 10 == 9:
            print(k, float(smoother.read().std()))


if __name__ == "__main__":
    main()
