import cupy as cp

_SOURCE = r"""
extern "C" __global__
void leap(const float* old, const float* now, float* next, int n, float r) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
    int k = y * n + x;
    float lap = now[k - 1] + now[k + 1] + now[k - n] + now[k + n] - 4.0f * now[k];
    next[k] = 2.0f * now[k] - old[k] + r * lap;
}
"""


class Solver:
    def __init__(self, grid, stream):
        self.grid = grid
        self.stream = stream
        self.kernel = cp.RawKernel(_SOURCE, "leap")
        with stream:
            self.levels = grid.levels()

    @property
    def field(self):
        return self.levels[1]

    def step(self):
        n = self.grid.n
        blocks = ((n + 31) // 32, (n + 7) // 8)
        old, now, nxt = self.levels
        with self.stream:
            self.kernel(blocks, (32, 8),
                        (old, now, nxt, cp.int32(n), cp.float32(self.grid.courant2)))
        self.levels = [now, nxt, old]
