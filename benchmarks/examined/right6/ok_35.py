import numpy as np
import pycuda.autoinit
import pycuda.driver as drv
from pycuda.compiler import SourceModule

mod = SourceModule("""
__global__ void life(const unsigned char *a, unsigned char *b, int h, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int n = 0;
    for (int dy = -1; dy <= 1; ++dy) for (int dx = -1; dx <= 1; ++dx)
        if (dx || dy) n += a[((y + dy + h) % h) * w + (x + dx + w) % w];
    b[y * w + x] = n == 3 || (n == 2 && a[y * w + x]);
}
""")
life = mod.get_function("life")


class Board:
    """Two managed boards; the host looks at or edits them between generations."""

    def __init__(self, h, w):
        self.h, self.w = h, w
        flag = drv.mem_attach_flags.GLOBAL
        self.cells = [drv.managed_empty((h, w), np.uint8, mem_flags=flag) for _ in range(2)]
        self.now = 0
        self.dirty = False
        self.cells[0][...] = 0

    def advance(self, generations):
        grid = ((self.w + 15) // 16, (self.h + 15) // 16)
        for _ in range(generations):
            a, b = self.cells[self.now], self.cells[1 - self.now]
            life(a, b, np.int32(self.h), np.int32(self.w), block=(16, 16, 1), grid=grid)
            self.now = 1 - self.now
        self.dirty = True

    @property
    def current(self):
        if self.dirty:
            pycuda.autoinit.context.synchronize()
            self.dirty = False
        return self.cells[self.now]

    def place(self, pattern, y, x):
        ph, pw = pattern.shape
        self.current[y:y + ph, x:x + pw] |= pattern

    def population(self):
        return int(self.current.sum())


if __name__ == "__main__":
    board = Board(512, 512)
    glider = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 1]], np.uint8)
    for k in range(5):
        board.place(glider, 20 * k, 30 * k)
        board.advance(64)
        print(k, board.population())
