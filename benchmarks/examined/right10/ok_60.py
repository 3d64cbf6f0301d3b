"""CuPy arrays handed to Numba kernels through the array interface, and back again."""
import cupy as cp
import numpy as np
from numba import cuda


@cuda.jit
def segment_max(values, starts, out):
    s = cuda.grid(1)
    if s < out.size:
        best = -1e30
        for j in range(starts[s], starts[s + 1]):
            if values[j] > best:
                best = values[j]
        out[s] = best


class Segments:
    def __init__(self, lengths: np.ndarray):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.numba_stream = cuda.external_stream(self.stream.ptr)
        with self.stream:
            self.starts = cp.concatenate([cp.zeros(1, cp.int64), cp.cumsum(cp.asarray(lengths))])
        self.repeats = lengths.tolist()
        self.count = len(lengths)

    def maxima(self, values: cp.ndarray) -> cp.ndarray:
        with self.stream:
            out = cp.empty(self.count, values.dtype)
            blocks = (self.count + 63) // 64
            segment_max[blocks, 64, self.numba_stream](values, self.starts, out)
        return out

    def softmax_denominators(self, values: cp.ndarray) -> cp.ndarray:
        peak = self.maxima(values)
        with self.stream:
            shifted = cp.exp(values - cp.repeat(peak, self.repeats))
            csum = cp.concatenate([cp.zeros(1, shifted.dtype), cp.cumsum(shifted)])
            return csum[self.starts[1:]] - csum[self.starts[:-1]]


def main():
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 50, 5000)
    seg = Segments(lengths)
    with seg.stream:
        values = cp.asarray(rng.standard_normal(int(lengths.sum())))
    for _ in range(5):
        den = seg.softmax_denominators(values)
        with seg.stream:
            values *= 0.9
    host = den.get(stream=seg.stream)
    seg.stream.synchronize()
    print(host.mean())


if __name__ == "__main__":
    main()
