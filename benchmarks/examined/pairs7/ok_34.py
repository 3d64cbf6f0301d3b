"""Sinogram correction: CuPy statistics and a Numba kernel on the same data."""
import cupy as cp
import numpy as np
from numba import cuda

ANGLES, BINS = 720, 2048


@cuda.jit
def destripe(sino, median, strength):
    a, b = cuda.grid(2)
    if a < sino.shape[0] and b < sino.shape[1]:
        sino[a, b] -= strength * median[b]


class Destriper:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.nb_stream = cuda.external_stream(self.stream.ptr)

    def __call__(self, sinogram, strength=0.8):
        with self.stream:
            sino = cp.asarray(sinogram)
            column = sino.mean(axis=0)
            column -= column.mean()
        blocks = ((ANGLES + 15) // 16, (BINS + 15) // 16)
        destripe[blocks, (16, 16), self.nb_stream](sino, column, np.float32(strength))
        with self.stream:
            return cp.clip(sino, 0.0, None).get()


def main():
    rng = np.random.default_rng(51)
    destriper = Destriper()
    for _ in range(12):
        stripes = rng.normal(0, 0.2, BINS).astype(np.float32)
        clean = destriper(rng.random((ANGLES, BINS), dtype=np.float32) + stripes)
        print(clean.std())


if __name__ == "__main__":
    main()
