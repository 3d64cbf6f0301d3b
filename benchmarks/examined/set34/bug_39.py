"""Grouped small GEMMs whose operand table is computed on the device."""
import numpy as np
import pycuda.autoprimaryctx  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

_SOURCE = r"""
extern "C" {
__global__ void route(const float* score, unsigned long long base, unsigned long long pitch,
                      unsigned long long* table, int experts, int groups) {
    int g = blockIdx.x * blockDim.x + threadIdx.x;
    if (g >= groups) return;
    int best = 0;
    for (int e = 1; e < experts; ++e)
        if (score[g * experts + e] > score[g * experts + best]) best = e;
    table[g] = base + pitch * best;
}

__global__ void gemm(const float* a, const float* b, float* c, int m, int n, int k) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n) return;
    float acc = 0.f;
    for (int i = 0; i < k; ++i) acc += a[row * k + i] * b[i * n + col];
    c[row * n + col] = acc;
}
}
"""


class GroupedGemm:
    def __init__(self, experts: int, groups: int, m: int, n: int, k: int):
        self.experts, self.groups = experts, groups
        self.m, self.n, self.k = m, n, k
        module = SourceModule(_SOURCE, no_extern_c=True)
        self.route = module.get_function("route")
        self.gemm = module.get_function("gemm")
        self.stream = drv.Stream()
        self.pitch = n * k * 4
        self.weights = drv.mem_alloc(experts * self.pitch)
        self.score = drv.mem_alloc(groups * experts * 4)
        self.table = drv.mem_alloc(groups * 8)
        self.a = drv.mem_alloc(groups * m * k * 4)
        self.c = drv.mem_alloc(groups * m * n * 4)
        self.table_host = drv.pagelocked_zeros(groups, dtype=np.uint64)
        drv.memset_d32(self.weights, 0, experts * n * k)
        drv.Context.synchronize()
        self.table_host.fill(int(self.weights))

    def _launch_route(self) -> None:
        self.route(
            self.score,
            np.uint64(int(self.weights)),
            np.uint64(self.pitch),
            self.table,
            np.int32(self.experts),
            np.int32(self.groups),
            block=(128, 1, 1),
            grid=((self.groups + 127) // 128, 1),
            stream=self.stream,
        )

    def run(self, a: np.ndarray, score: np.ndarray) -> None:
        drv.memcpy_htod_async(self.a, a, self.stream)
        drv.memcpy_htod_async(self.score, score, self.stream)
        self._launch_route()
        drv.memcpy_dtoh_async(self.table_host, self.table, self.stream)
        block = (16, 16, 1)
        grid = ((self.n + 15) // 16, (self.m + 15) // 16)
        for g in range(self.groups):
            weight = np.uint64(self.table_host[g])
            self.gemm(
                np.uint64(int(self.a) + g * self.m * self.k * 4),
                weight,
                np.uint64(int(self.c) + g * self.m * self.n * 4),
                np.int32(self.m),
                np.int32(self.n),
                np.int32(self.k),
                block=block,
                grid=grid,
                stream=self.stream,
            )

    def result(self) -> np.ndarray:
        out = drv.pagelocked_empty((self.groups, self.m, self.n), dtype=np.float32)
        drv.memcpy_dtoh_async(out, self.c, self.stream)
        self.stream.synchronize()
        return out


def main(rounds: int = 100) -> None:
    layer = GroupedGemm(experts=8, groups=64, m=128, n=256, k=256)
    a = drv.pagelocked_empty((64, 128, 256), dtype=np.float32)
    score = drv.pagelocked_empty((64, 8), dtype=np.float32)
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        a[...] = rng.random(a.shape, dtype=np.float32)
        score[...] = rng.random(score.shape, dtype=np.float32)
        layer.run(a, score)
        print(float(layer.result().mean()))


if __name__ == "__main__":
    main()
