"""Explicit heat equation on a slab, rows near the rim and the core advanced on two streams."""
import cupy as cp

_advance = cp.RawKernel(r'''
extern "C" __global__
void advance(const float* src, float* dst, int ny, int nx, int row0, int row1, float k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = row0 + blockIdx.y;
    if (i < 1 || i >= nx - 1 || j >= row1) return;
    int c = j * nx + i;
    dst[c] = src[c] + k * (src[c-1] + src[c+1] + src[c-nx] + src[c+nx] - 4.0f * src[c]);
}
''', 'advance')


class HeatSlab:
    def __init__(self, ny, nx, k=0.2):
        self.ny, self.nx, self.k = ny, nx, cp.float32(k)
        self.levels = [cp.zeros((ny, nx), cp.float32) for _ in range(2)]
        self.levels[0][ny // 2, nx // 2] = 1000.0
        self.levels[1][...] = self.levels[0]
        self.rim = cp.cuda.Stream(non_blocking=True)
        self.core = cp.cuda.Stream(non_blocking=True)
        self.rim_done = cp.cuda.Event(disable_timing=True)
        self.core_done = cp.cuda.Event(disable_timing=True)
        self.step_no = 0
        cp.cuda.Device().synchronize()

    def _rows(self, stream, src, dst, lo, hi):
        grid = ((self.nx + 127) // 128, hi - lo)
        with stream:
            _advance(grid, (128,), (src, dst, self.ny, self.nx, lo, hi, self.k))

    def step(self):
        src = self.levels[self.step_no % 2]
        dst = self.levels[1 - self.step_no % 2]
        self.rim.wait_event(self.core_done)
        self.core.wait_event(self.rim_done)
        self._rows(self.rim, src, dst, 1, 3)
        self._rows(self.rim, src, dst, self.ny - 3, self.ny - 1)
        self._rows(self.core, src, dst, 3, self.ny - 3)
        self.rim_done.record(self.rim)
        self.core_done.record(self.core)
        self.step_no += 1

    def total(self):
        self.rim.synchronize()
        self.core.synchronize()
        return float(self.levels[self.step_no % 2].sum())


def main():
    slab = HeatSlab(1024, 1024)
    for n in range(2000):
        slab.step()
        if n % 500 == 499:
            print(n, slab.total())


if __name__ == "__main__":
    main()
