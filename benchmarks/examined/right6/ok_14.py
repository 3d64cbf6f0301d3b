import numpy as np
from numba import cuda


@cuda.jit
def partial_hist(data, lo, hi, bins, out):
    i = lo + cuda.grid(1)
    if i < hi:
        b = int(data[i] * bins)
        if b < bins:
            cuda.atomic.add(out, b, 1)


@cuda.jit
def merge_hist(parts, out):
    b = cuda.grid(1)
    if b < out.size:
        total = 0
        for p in range(parts.shape[0]):
            total += parts[p, b]
        out[b] = total


class Histogram:
    def __init__(self, bins, lanes=4):
        self.bins = bins
        self.lanes = [cuda.stream() for _ in range(lanes)]
        self.parts = cuda.to_device(np.zeros((lanes, bins), np.int32))
        self.out = cuda.device_array(bins, np.int32)

    def count(self, values):
        d_values = cuda.to_device(values)
        self.parts.copy_to_device(np.zeros(self.parts.shape, np.int32))
        n = values.size
        step = -(-n // len(self.lanes))
        for k, stream in enumerate(self.lanes):
            lo, hi = k * step, min((k + 1) * step, n)
            partial_hist[(step + 127) // 128, 128, stream](
                d_values, lo, hi, self.bins, self.parts[k])
        merge_hist[(self.bins + 127) // 128, 128](self.parts, self.out)
        return self.out.copy_to_host()


if __name__ == "__main__":
    h = Histogram(64)
    for _ in range(3):
        print(h.count(np.random.rand(1 << 20).astype(np.float32)).sum())
