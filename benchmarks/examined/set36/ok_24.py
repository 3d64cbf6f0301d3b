"""Batched matrix sums with PyCUDA: launches on per-batch streams, plain copies for the results."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

_SOURCE = r"""
__global__ void row_sums(const float* a, float* out, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0.f;
    for (int c = 0; c < cols; ++c) s += a[r * cols + c];
    out[r] = s;
}
"""


class Lane:
    def __init__(self, rows, cols):
        self.stream = drv.Stream()
        self.matrix = drv.mem_alloc(rows * cols * 4)
        self.sums = drv.mem_alloc(rows * 4)


class RowReducer:
    def __init__(self, rows, cols, lanes=4):
        self.rows = rows
        self.cols = cols
        self.kernel = SourceModule(_SOURCE).get_function("row_sums")
        self.lanes = [Lane(rows, cols) for _ in range(lanes)]
        self.combined = np.empty((lanes, rows), dtype=np.float32)

    def _upload(self, lane, matrix):
        drv.memcpy_htod(lane.matrix, np.ascontiguousarray(matrix, dtype=np.float32))

    def _launch(self, lane):
        threads = 128
        self.kernel(
            lane.matrix,
            lane.sums,
            np.int32(self.rows),
            np.int32(self.cols),
            block=(threads, 1, 1),
            grid=((self.rows + threads - 1) // threads, 1),
            stream=lane.stream,
        )

    def _download(self, lane, row):
        drv.memcpy_dtoh(row, lane.sums)

    def reduce(self, matrices):
        """At most one matrix per lane."""
        used = self.lanes[: len(matrices)]
        for lane, matrix in zip(used, matrices):
            self._upload(lane, matrix)
        for lane in used:
            self._launch(lane)
        for index, lane in enumerate(used):
            self._download(lane, self.combined[index])
        return self.combined[: len(used)].copy()


def main():
    rng = np.random.default_rng(0)
    reducer = RowReducer(rows=8192, cols=2048)
    totals = np.zeros(8192)
    for _ in range(10):
        matrices = [rng.random((8192, 2048), dtype=np.float32) for _ in range(4)]
        totals += reducer.reduce(matrices).sum(axis=0)
    print(totals[:4])


if __name__ == "__main__":
    main()
