"""Fork and join between numba streams inside a reusable reduction."""
import numpy as np
from numba import cuda

THREADS = 128


@cuda.jit
def partial_sum(x, begin, end, out, slot):
    total = 0.0
    i = begin + cuda.grid(1)
    step = cuda.gridsize(1)
    while i < end:
        total += x[i]
        i += step
    cuda.atomic.add(out, slot, total)


@cuda.jit
def zero(out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        out[i] = 0.0


@cuda.jit
def subtract_mean(x, partials, n):
    total = 0.0
    for k in range(partials.shape[0]):
        total += partials[k]
    i = cuda.grid(1)
    if i < n:
        x[i] -= total / n


class Centering:
    def __init__(self, branches=3):
        self.main = cuda.stream()
        self.sides = [cuda.stream() for _ in range(branches)]
        self.forked = cuda.event(timing=False)
        self.joined = [cuda.event(timing=False) for _ in range(branches)]
        self.partials = cuda.device_array(branches + 1, dtype=np.float64)

    def _launch(self, x, n):
        parts = len(self.sides) + 1
        cuts = [n * k // parts for k in range(parts + 1)]
        zero[1, 32, self.main](self.partials)
        self.forked.record(self.main)
        for k, side in enumerate(self.sides):
            self.forked.wait(side)
            partial_sum[16, THREADS, side](x, cuts[k], cuts[k + 1], self.partials, k)
            self.joined[k].record(side)
        partial_sum[16, THREADS, self.main](x, cuts[-2], cuts[-1], self.partials,
                                            parts - 1)
        for event in self.joined:
            event.wait(self.main)
        subtract_mean[(n + THREADS - 1) // THREADS, THREADS, self.main](
            x, self.partials, n)

    def __call__(self, host, passes=1):
        host = np.array(host, dtype=np.float64)
        if host.size == 0:
            return host
        x = cuda.to_device(host, stream=self.main)
        for _ in range(passes):
            self._launch(x, len(host))
        x.copy_to_host(host, stream=self.main)
        self.main.synchronize()
        return host


def main():
    rng = np.random.default_rng(0)
    center = Centering()
    for size in (5, 1000, 1 << 18):
        values = rng.random(size) + 3
        np.testing.assert_allclose(center(values, passes=2), values - values.mean(),
                                   atol=1e-9)


if __name__ == "__main__":
    main()
