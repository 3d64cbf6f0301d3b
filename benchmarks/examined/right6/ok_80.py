import cupy as cp
import numpy as np
import warp as wp


@wp.kernel
def splat(pos: wp.array(dtype=wp.vec2), grid: wp.array2d(dtype=float)):
    t = wp.tid()
    i = wp.clamp(int(pos[t][0] * 64.0), 0, 63)
    j = wp.clamp(int(pos[t][1] * 64.0), 0, 63)
    wp.atomic_add(grid, i, j, 1.0)


class Density:
    """CuPy moves the particles and smooths, Warp splats, on one cupy stream."""

    def __init__(self, n):
        self.n = n
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.wp_stream = wp.Stream("cuda:0", cuda_stream=self.stream.ptr)
        with self.stream:
            self.pos = cp.asarray(np.random.rand(n, 2).astype(np.float32))
            self.grid = cp.zeros((64, 64), cp.float32)
        self.wp_pos = wp.array(ptr=self.pos.data.ptr, shape=n, dtype=wp.vec2, device="cuda:0")
        self.wp_grid = wp.array(ptr=self.grid.data.ptr, shape=(64, 64), dtype=float, device="cuda:0")

    def step(self, velocity):
        with self.stream:
            self.pos += cp.float32(velocity)
            self.pos %= cp.float32(1.0)
            self.grid.fill(0)
        wp.launch(splat, dim=self.n, inputs=[self.wp_pos, self.wp_grid], stream=self.wp_stream)
        with self.stream:
            smooth = (self.grid[1:-1] + self.grid[:-2] + self.grid[2:]) / cp.float32(3)
            return float(smooth.max())


if __name__ == "__main__":
    wp.init()
    density = Density(1 << 18)
    print([density.step(0.01 * k) for k in range(5)])
