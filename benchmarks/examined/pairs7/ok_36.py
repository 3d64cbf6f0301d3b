"""Shallow water on three rotating fields with snapshots taken by another stream."""
import numpy as np
from numba import cuda

N = 1 << 21


@cuda.jit
def leapfrog(prev, cur, nxt, c):
    i = cuda.grid(1)
    if 0 < i < cur.size - 1:
        nxt[i] = 2.0 * cur[i] - prev[i] + c * (cur[i - 1] - 2.0 * cur[i] + cur[i + 1])


class Field:
    def __init__(self, values):
        self.data = cuda.to_device(values)
        self.read = cuda.event(timing=False)


class ShallowWater:
    def __init__(self, initial):
        self.fields = [Field(initial) for _ in range(3)]
        self.solve = cuda.stream()
        self.output = cuda.stream()
        self.ready = cuda.event(timing=False)
        self.pages = [cuda.pinned_array(N, np.float32) for _ in range(2)]
        self.saved = []

    def step(self):
        prev, cur, nxt = self.fields
        nxt.read.wait(self.solve)
        leapfrog[(N + 255) // 256, 256, self.solve](prev.data, cur.data, nxt.data, np.float32(0.1))
        self.fields = [cur, nxt, prev]

    def save(self):
        field = self.fields[1]
        page = self.pages[len(self.saved) % 2]
        if len(self.saved) >= 2:
            self.saved[-2][1].synchronize()
        self.ready.record(self.solve)
        self.ready.wait(self.output)
        field.data.copy_to_host(page, stream=self.output)
        field.read.record(self.output)
        landed = cuda.event(timing=False)
        landed.record(self.output)
        self.saved.append((page, landed))

    def last(self):
        page, landed = self.saved[-1]
        landed.synchronize()
        return page


def main():
    x = np.linspace(-10, 10, N, dtype=np.float32)
    water = ShallowWater(np.exp(-x * x))
    for k in range(300):
        water.step()
        if k % 10 == 9:
            water.save()
            if k % 50 == 49:
                print(k, water.last().max())


if __name__ == "__main__":
    main()
