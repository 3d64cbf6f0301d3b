"""Acoustic ping-pong solver; receivers copy the current field to pinned memory."""
import numpy as np
from numba import cuda

N = 1 << 22


@cuda.jit
def advance(src, dst, a):
    i = cuda.grid(1)
    if 0 < i < src.size - 1:
        dst[i] = src[i] + a * (src[i - 1] - src[i + 1])


class Acoustic:
    def __init__(self, initial):
        self.src = cuda.to_device(initial)
        self.dst = cuda.to_device(initial)
        self.compute = cuda.stream()
        self.record = cuda.stream()
        self.computed = cuda.event(timing=False)
        self.recorded = cuda.event(timing=False)
        self.trace = cuda.pinned_array(N, np.float32)

    def step(self):
        advance[(N + 255) // 256, 256, self.compute](self.src, self.dst, np.float32(0.05))
        self.src, self.dst = self.dst, self.src

    def tap(self):
        self.recorded.synchronize()
        self.computed.record(self.compute)
        self.computed.wait(self.record)
        self.src.copy_to_host(self.trace, stream=self.record)
        self.recorded.record(self.record)

    def peak(self):
        self.recorded.synchronize()
        return float(np.abs(self.trace).max())


def main():
    x = np.linspace(-5, 5, N, dtype=np.float32)
    model = Acoustic(np.exp(-4 * x * x))
    peaks = []
    for k in range(200):
        model.step()
        if k % 4 == 0:
            model.tap()
        if k % 4 == 3:
            peaks.append(model.peak())
    print(peaks[-4:])


if __name__ == "__main__":
    main()
