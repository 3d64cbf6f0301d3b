"""Block convolver: signal blocks are pushed to the GPU and pulled back."""
import math

import numpy as np
from numba import cuda


@cuda.jit
def smooth(src, dst, radius):
    i = cuda.grid(1)
    n = src.shape[0]
    if i < n:
        acc = 0.0
        for k in range(-radius, radius + 1):
            j = min(max(i + k, 0), n - 1)
            acc += src[j] * math.exp(-abs(k) / 8.0)
        dst[i] = acc


class Convolver:
    def __init__(self, n, radius=64):
        self.n = n
        self.radius = radius
        self.up = cuda.stream()
        self.run = cuda.stream()
        self.h_in = cuda.pinned_array(n, np.float32)
        self.h_out = cuda.pinned_array(n, np.float32)
        self.d_in = cuda.device_array(n, np.float32, stream=self.up)
        self.d_out = cuda.device_array(n, np.float32, stream=self.up)
        self.loaded = cuda.event(timing=False)

    def push(self, block):
        self.h_in[:] = block
        self.d_in.copy_to_device(self.h_in, stream=self.up)
        self.loaded.record(self.up)
        self.loaded.wait(self.run)
        threads = 256
        grid = (self.n + threads - 1) // threads
        smooth[grid, threads, self.run](self.d_in, self.d_out, self.radius)

    def pull(self):
        self.d_out.copy_to_host(self.h_out)
        self.up.synchronize()
        return self.h_out.copy()


def reference(block, radius):
    w = np.exp(-np.abs(np.arange(-radius, radius + 1)) / 8.0)
    padded = np.pad(block, radius, mode="edge")
    return np.convolve(padded, w, mode="valid").astype(np.float32)


def main(n=1 << 20, blocks=6):
    rng = np.random.default_rng(0)
    conv = Convolver(n)
    worst = 0.0
    for _ in range(blocks):
        block = rng.standard_normal(n).astype(np.float32)
        conv.push(block)
        got = conv.pull()
        worst = max(worst, float(np.abs(got - reference(block, conv.radius)).max()))
    print("max error", worst)


if __name__ == "__main__":
    main()
