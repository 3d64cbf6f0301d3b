import math
from typing import Iterator

import numpy as np
from numba import cuda

CHUNK = 65536
SLOTS = 4


@cuda.jit
def horner(x, coeff, y, n):
    i = cuda.grid(1)
    if i < n:
        acc = coeff[0]
        for k in range(1, coeff.shape[0]):
            acc = acc * x[i] + coeff[k]
        y[i] = acc


class ChunkedPolynomial:
    def __init__(self, coefficients: np.ndarray) -> None:
        self.coeff = cuda.to_device(coefficients.astype(np.float64))
        self.streams = [cuda.stream() for _ in range(SLOTS)]
        self.h_in = [cuda.pinned_array(CHUNK, dtype=np.float64) for _ in range(SLOTS)]
        self.h_out = [cuda.pinned_array(CHUNK, dtype=np.float64) for _ in range(SLOTS)]
        self.d_in = [cuda.device_array(CHUNK, dtype=np.float64) for _ in range(SLOTS)]
        self.d_out = [cuda.device_array(CHUNK, dtype=np.float64) for _ in range(SLOTS)]
        self._sizes: list[int] = []

    def _flush(self) -> Iterator[np.ndarray]:
        if not self._sizes:
            return
        cuda.synchronize()
        for slot, n in enumerate(self._sizes):
            yield self.h_out[slot][:n].copy()
        self._sizes.clear()

    def _submit(self, chunk: np.ndarray) -> None:
        slot = len(self._sizes)
        n = chunk.size
        stream = self.streams[slot]
        self.h_in[slot][:n] = chunk
        self.d_in[slot].copy_to_device(self.h_in[slot], stream=stream)
        blocks = math.ceil(n / 256)
        horner[blocks, 256, stream](self.d_in[slot], self.coeff, self.d_out[slot], n)
        self.d_out[slot].copy_to_host(self.h_out[slot], stream=stream)
        self._sizes.append(n)

    def evaluate(self, chunks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
        for step, chunk in enumerate(chunks):
            if step % SLOTS == 0:
                yield from self._flush()
            self._submit(chunk)
        yield from self._flush()


def split(x: np.ndarray) -> Iterator[np.ndarray]:
    for lo in range(0, x.size, CHUNK):
        yield x[lo : lo + CHUNK]


if __name__ == "__main__":
    xs = np.linspace(-1.0, 1.0, 1_000_003)
    poly = ChunkedPolynomial(np.array([1.0, -0.5, 0.25, 2.0]))
    ys = np.concatenate(list(poly.evaluate(split(xs))))
    print(np.abs(ys - np.polyval([1.0, -0.5, 0.25, 2.0], xs)).max())
