import math

import numpy as np
from numba import cuda


@cuda.jit
def project(volume, angles, sino):
    a, d = cuda.grid(2)
    if a >= sino.shape[0] or d >= sino.shape[1]:
        return
    n = volume.shape[0]
    c, s = math.cos(angles[a]), math.sin(angles[a])
    t = d - 0.5 * sino.shape[1]
    acc = 0.0
    for k in range(n):
        r = k - 0.5 * n
        x = int(t * c - r * s + 0.5 * n)
        y = int(t * s + r * c + 0.5 * n)
        if 0 <= x < n and 0 <= y < n:
            acc += volume[y, x]
    sino[a, d] = acc


@cuda.jit
def residual(sino, measured, out):
    a, d = cuda.grid(2)
    if a < sino.shape[0] and d < sino.shape[1]:
        out[a, d] = measured[a, d] - sino[a, d]


@cuda.jit
def backproject(res, angles, volume, step):
    y, x = cuda.grid(2)
    n = volume.shape[0]
    if y >= n or x >= n:
        return
    acc = 0.0
    for a in range(res.shape[0]):
        d = int((x - 0.5 * n) * math.cos(angles[a]) + (y - 0.5 * n) * math.sin(angles[a]) + 0.5 * res.shape[1])
        if 0 <= d < res.shape[1]:
            acc += res[a, d]
    volume[y, x] += step * acc / res.shape[0]


def grid_for(shape, block=(8, 32)):
    return tuple((s + b - 1) // b for s, b in zip(shape, block)), block


class Subset:
    def __init__(self, angles, measured):
        self.stream = cuda.stream()
        self.angles = cuda.to_device(angles.astype(np.float32))
        self.measured = cuda.to_device(measured.astype(np.float32))
        self.sino = cuda.device_array(measured.shape, dtype=np.float32)
        self.res = cuda.device_array(measured.shape, dtype=np.float32)


class OSSart:
    def __init__(self, n, angles, sinogram, num_subsets=4):
        self.volume = cuda.to_device(np.zeros((n, n), dtype=np.float32))
        self.subsets = [Subset(angles[i::num_subsets], sinogram[i::num_subsets]) for i in range(num_subsets)]

    def iterate(self, step):
        for sub in self.subsets:
            g, b = grid_for(sub.sino.shape)
            project[g, b, sub.stream](self.volume, sub.angles, sub.sino)
            residual[g, b, sub.stream](sub.sino, sub.measured, sub.res)
        g, b = grid_for(self.volume.shape)
        for sub in self.subsets:
            backproject[g, b](sub.res, sub.angles, self.volume, step)

    def run(self, iterations, step=0.05):
        for _ in range(iterations):
            self.iterate(step)
        return self.volume.copy_to_host()
