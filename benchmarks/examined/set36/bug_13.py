"""Coarse assignment of an inverted-file index: ids are computed on the GPU, lists grown on the host."""
import collections

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

_SRC = """
__global__ void assign(const float *q, const float *c, int *ids, int n, int k, int d)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float best = 3.4e38f;
    int arg = 0;
    for (int j = 0; j < k; ++j) {
        float acc = 0.f;
        for (int t = 0; t < d; ++t) {
            float diff = q[i * d + t] - c[j * d + t];
            acc += diff * diff;
        }
        if (acc < best) { best = acc; arg = j; }
    }
    ids[i] = arg;
}
"""


class CoarseQuantizer:
    def __init__(self, centroids, max_rows):
        self.k, self.dim = centroids.shape
        self.max_rows = max_rows
        self.kernel = SourceModule(_SRC).get_function("assign")
        self.stream = drv.Stream()
        self.d_centroids = drv.to_device(centroids.astype(np.float32))
        self.d_rows = drv.mem_alloc(max_rows * self.dim * 4)
        self.d_ids = drv.mem_alloc(max_rows * 4)
        self.h_ids = drv.pagelocked_empty(max_rows, np.int32)

    def assign(self, rows):
        n = rows.shape[0]
        drv.memcpy_htod(self.d_rows, np.ascontiguousarray(rows, dtype=np.float32))
        self.kernel(self.d_rows, self.d_centroids, self.d_ids, np.int32(n), np.int32(self.k),
                    np.int32(self.dim), block=(128, 1, 1), grid=((n + 127) // 128, 1),
                    stream=self.stream)
        drv.memcpy_dtoh_async(self.h_ids[:n], self.d_ids, self.stream)
        return self.h_ids[:n]


class InvertedFile:
    def __init__(self, centroids, max_rows=65536):
        self.quantizer = CoarseQuantizer(centroids, max_rows)
        self.lists = collections.defaultdict(list)
        self.total = 0

    def add(self, rows):
        for start in range(0, len(rows), self.quantizer.max_rows):
            part = rows[start:start + self.quantizer.max_rows]
            ids = self.quantizer.assign(part)
            order = np.argsort(ids, kind="stable")
            for pos in order:
                self.lists[int(ids[pos])].append(self.total + int(pos))
            self.total += len(part)


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    index = InvertedFile(rng.standard_normal((1024, 64)))
    index.add(rng.standard_normal((200000, 64)).astype(np.float32))
    print(max(len(v) for v in index.lists.values()))
