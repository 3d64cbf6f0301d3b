import math

import numpy as np
from numba import cuda


@cuda.jit
def paint(field, cx, cy, radius, value):
    i, j = cuda.grid(2)
    if i < field.shape[0] and j < field.shape[1]:
        d = math.sqrt((i - cx) ** 2 + (j - cy) ** 2)
        if d < radius:
            field[i, j] = value


@cuda.jit
def blend(total, front, back, weight):
    i, j = cuda.grid(2)
    if i < total.shape[0] and j < total.shape[1]:
        total[i, j] = (1 - weight) * total[i, j] + weight * (front[i, j] + back[i, j])


class Compositor:
    """Two layers are painted on their own streams, blending happens on stream 0."""

    def __init__(self, side):
        self.side = side
        self.legacy = cuda.legacy_default_stream()
        self.layers = [cuda.to_device(np.zeros((side, side), np.float32)) for _ in range(2)]
        self.streams = [cuda.stream(), cuda.stream()]
        self.total = cuda.to_device(np.zeros((side, side), np.float32))
        self.grid = ((side + 15) // 16, (side + 15) // 16)

    def frame(self, t):
        for k, (layer, stream) in enumerate(zip(self.layers, self.streams)):
            angle = t * 0.1 + k * math.pi
            cx = self.side * (0.5 + 0.3 * math.cos(angle))
            cy = self.side * (0.5 + 0.3 * math.sin(angle))
            paint[self.grid, (16, 16), stream](layer, cx, cy, 40.0, float(k + 1))
        blend[self.grid, (16, 16), self.legacy](self.total, self.layers[0], self.layers[1], 0.05)

    def snapshot(self):
        return self.total.copy_to_host()


def main():
    comp = Compositor(512)
    for t in range(200):
        comp.frame(t)
        if t % 50 == 0:
            print(t, comp.snapshot().mean())


if __name__ == "__main__":
    main()
