import cupy as cp

blur = cp.RawKernel(r"""
extern "C" __global__
void blur(const float* a, float* b, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= n) return;
    float s = 0.f;
    int k = 0;
    for (int dy = -4; dy <= 4; ++dy)
        for (int dx = -4; dx <= 4; ++dx) {
            int u = x + dx, v = y + dy;
            if (u >= 0 && v >= 0 && u < n && v < n) { s += a[v * n + u]; ++k; }
        }
    b[y * n + x] = s / k;
}
""", "blur")


class EdgeMap:
    def __init__(self, tile):
        self.tile = tile
        self.low = cp.empty((tile, tile), dtype=cp.float32)
        self.energy = cp.zeros((), dtype=cp.float64)

    def feed(self, page):
        n = self.tile
        g = (n + 15) // 16
        blur((g, g), (16, 16), (page, self.low, cp.int32(n)))
        self.energy += cp.square(page - self.low).sum(dtype=cp.float64)
