"""PyCUDA managed arrays: a cellular automaton with host-side births."""
import numpy as np
import pycuda.autoinit
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

LIFE = SourceModule("""
__global__ void life(const unsigned char *a, unsigned char *b, int h, int w) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int n = 0;
  for (int dy = -1; dy <= 1; ++dy) for (int dx = -1; dx <= 1; ++dx)
    if (dx || dy) n += a[((y + dy + h) % h) * w + (x + dx + w) % w];
  b[y * w + x] = (n == 3) || (n == 2 && a[y * w + x]);
}""").get_function("life")


class ManagedLife:
    def __init__(self, h, w):
        flags = cuda.mem_attach_flags.GLOBAL
        self.a = cuda.managed_empty((h, w), np.uint8, mem_flags=flags)
        self.b = cuda.managed_empty((h, w), np.uint8, mem_flags=flags)
        self.a[:] = np.random.default_rng(0).random((h, w)) < 0.3
        self.b[:] = 0
        self.h, self.w = h, w
        self.stream = cuda.Stream()

    def advance(self, steps):
        grid = ((self.w + 15) // 16, (self.h + 15) // 16)
        for _ in range(steps):
            LIFE(self.a.base, self.b.base, np.int32(self.h), np.int32(self.w),
                 block=(16, 16, 1), grid=grid, stream=self.stream)
            self.a, self.b = self.b, self.a

    def on_host(self, fn):
        pycuda.autoinit.context.synchronize()
        return fn(self.a)


def seed_corner(board):
    board[:3, :3] = [[0, 1, 0], [0, 0, 1], [1, 1, 1]]
    return int(board.sum())


def main():
    life = ManagedLife(256, 256)
    alive = []
    for _ in range(10):
        life.advance(20)
        alive.append(life.on_host(seed_corner))
    life.advance(20)
    alive.append(life.on_host(lambda b: int(b.sum())))
    return alive


if __name__ == "__main__":
    print(main())
