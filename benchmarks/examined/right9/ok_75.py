import numpy as np
from numba import cuda


@cuda.jit
def advance(state, rate, flags, limit):
    i = cuda.grid(1)
    if i < state.shape[0]:
        state[i] += rate[i] * (1.0 - state[i])
        if state[i] > limit:
            flags[i] = 1


class Monitor:
    """Raises per-element flags in mapped memory and lets the host react."""

    def __init__(self, n, limit):
        self.n = n
        self.limit = limit
        self.stream = cuda.stream()
        self.flags = cuda.mapped_array(n, dtype=np.int32)
        self.rate = cuda.mapped_array(n, dtype=np.float64)
        self.flags[:] = 0
        self.rate[:] = np.random.default_rng(0).random(n) * 0.05
        self.state = cuda.to_device(np.zeros(n), stream=self.stream)
        self.stream.synchronize()

    def round(self, steps):
        for _ in range(steps):
            advance[(self.n + 255) // 256, 256, self.stream](self.state, self.rate, self.flags, self.limit)
        self.stream.synchronize()
        raised = np.flatnonzero(self.flags)
        self.rate[raised] *= 0.5
        self.flags[raised] = 0
        return len(raised)

    def values(self):
        out = self.state.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        return out


def main():
    mon = Monitor(1 << 16, 0.8)
    for r in range(30):
        n = mon.round(4)
        if r % 10 == 0:
            print(r, n)
    print(mon.values().mean())


if __name__ == "__main__":
    main()
