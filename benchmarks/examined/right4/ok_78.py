import cupy as cp
import numpy as np
from numba import cuda


@cuda.jit
def median3(src, dst):
    i = cuda.grid(1)
    if 0 < i < src.size - 1:
        a, b, c = src[i - 1], src[i], src[i + 1]
        dst[i] = max(min(a, b), min(max(a, b), c))


class MixedStream:
    def __init__(self):
        self.cupy = cp.cuda.Stream(non_blocking=True)
        self.numba = cuda.external_stream(self.cupy.ptr)

    def launch(self, kernel, n, *args):
        kernel[(n + 255) // 256, 256, self.numba](*args)

    def fetch(self, array):
        host = array.get(stream=self.cupy)
        self.cupy.synchronize()
        return host


class Filter:
    def __init__(self, n, passes):
        self.mixed = MixedStream()
        self.passes = passes
        with self.mixed.cupy:
            self.front = cp.zeros(n, cp.float32)
            self.back = cp.zeros(n, cp.float32)

    def _numba_view(self, array):
        return cuda.as_cuda_array(array, sync=False)

    def __call__(self, values):
        with self.mixed.cupy:
            self.front[...] = cp.asarray(values)
            self.back[...] = self.front
            for _ in range(self.passes):
                self.mixed.launch(median3, values.size, self._numba_view(self.front), self._numba_view(self.back))
                self.front, self.back = self.back, self.front
            peak = cp.abs(self.front).max()
            out = self.front / peak
            return self.mixed.fetch(out)


def main():
    rng = np.random.default_rng(0)
    smooth = Filter(1 << 20, 4)
    return [float(smooth(rng.normal(size=1 << 20).astype(np.float32)).std()) for _ in range(10)]


if __name__ == "__main__":
    print(main())
