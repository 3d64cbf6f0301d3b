import numpy as np
from numba import cuda


@cuda.jit
def sweep(src, dst, flags, tol):
    i = cuda.grid(1)
    n = src.size
    if i > 0 and i < n - 1:
        new = 0.5 * (src[i - 1] + src[i + 1])
        if abs(new - src[i]) > tol:
            flags[0] = 1
        dst[i] = new


class ConvergenceFlag:
    def __init__(self):
        self.word = cuda.mapped_array(1, dtype=np.int32)
        self.event = cuda.event(timing=False)

    def reset(self):
        self.word[0] = 0

    def mark(self, stream):
        self.event.record(stream)

    def raised(self):
        self.event.synchronize()
        return bool(self.word[0])


class Relaxation:
    def __init__(self, values, tol):
        self.stream = cuda.stream()
        self.front = cuda.to_device(values, stream=self.stream)
        self.back = cuda.to_device(values, stream=self.stream)
        self.flag = ConvergenceFlag()
        self.tol = tol
        self.blocks = (values.size + 127) // 128

    def _burst(self, sweeps):
        self.flag.reset()
        for _ in range(sweeps):
            sweep[self.blocks, 128, self.stream](self.front, self.back, self.flag.word, self.tol)
            self.front, self.back = self.back, self.front
        self.flag.mark(self.stream)

    def solve(self, burst=64, limit=200):
        for done in range(1, limit + 1):
            self._burst(burst)
            if not self.flag.raised():
                break
        host = self.front.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        return host, done * burst


def main(n=512):
    start = np.zeros(n, np.float64)
    start[-1] = 1.0
    solution, sweeps = Relaxation(start, 1e-6).solve()
    return float(solution[n // 2]), sweeps


if __name__ == "__main__":
    print(main())
