"""Column-sum service: one page-locked buffer, several worker streams (PyCUDA)."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

SRC = """
__global__ void column_sum(const float *m, float *out, int rows, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    float s = 0.f;
    for (int r = 0; r < rows; ++r) s += m[r * cols + c];
    out[c] = s;
}

__global__ void scale(float *v, float f, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) v[i] *= f;
}
"""

_mod = SourceModule(SRC)
COLUMN_SUM = _mod.get_function("column_sum")
SCALE = _mod.get_function("scale")


class Lane:
    def __init__(self, rows, cols):
        self.stream = drv.Stream()
        self.mat = drv.mem_alloc(4 * rows * cols)
        self.out = drv.mem_alloc(4 * cols)


class ColumnMeans:
    THREADS = 256

    def __init__(self, rows, cols, lanes=3):
        self.rows, self.cols = rows, cols
        self.staging = drv.pagelocked_empty((rows, cols), np.float32)
        self.lanes = [Lane(rows, cols) for _ in range(lanes)]
        self.grid = ((cols + self.THREADS - 1) // self.THREADS, 1)

    def _stage(self, lane, matrix):
        self.staging[:] = matrix
        drv.memcpy_htod(lane.mat, self.staging)

    def _launch(self, lane):
        block = (self.THREADS, 1, 1)
        COLUMN_SUM(lane.mat, lane.out, np.int32(self.rows), np.int32(self.cols),
                   block=block, grid=self.grid, stream=lane.stream)
        SCALE(lane.out, np.float32(1.0 / self.rows), np.int32(self.cols),
              block=block, grid=self.grid, stream=lane.stream)

    def __call__(self, group):
        used = []
        for lane, matrix in zip(self.lanes, group):
            self._stage(lane, matrix)
            self._launch(lane)
            used.append(lane)
        means = np.empty((len(used), self.cols), dtype=np.float32)
        for i, lane in enumerate(used):
            drv.memcpy_dtoh(means[i], lane.out)
        return means


def main(rows=4096, cols=2048, groups=10):
    rng = np.random.default_rng(11)
    svc = ColumnMeans(rows, cols)
    worst = 0.0
    for _ in range(groups):
        group = [rng.random((rows, cols), dtype=np.float32) for _ in range(3)]
        got = svc(group)
        want = np.stack([g.mean(axis=0) for g in group])
        worst = max(worst, float(np.abs(got - want).max()))
    print("max error", worst)


if __name__ == "__main__":
    main()
