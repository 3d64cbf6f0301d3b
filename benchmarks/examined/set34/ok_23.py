"""Jacobi sweeps over slabs on several queues with a global reduction between."""
from typing import List

import cupy as cp
import numpy as np

_SWEEP = cp.RawKernel(
    r"""
extern "C" __global__
void sweep(const float* u, float* v, const float* shift, float* partial, int n, int row0, int rows) {
    __shared__ float acc[256];
    float local = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * n; i += gridDim.x * blockDim.x) {
        int r = row0 + i / n, c = i % n;
        float up = r > 0 ? u[(r - 1) * n + c] : 0.f;
        float dn = r < n - 1 ? u[(r + 1) * n + c] : 0.f;
        float lf = c > 0 ? u[r * n + c - 1] : 0.f;
        float rt = c < n - 1 ? u[r * n + c + 1] : 0.f;
        float x = 0.25f * (up + dn + lf + rt) - shift[0];
        local += x;
        v[r * n + c] = x;
    }
    acc[threadIdx.x] = local;
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (threadIdx.x < s) acc[threadIdx.x] += acc[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = acc[0];
}
""",
    "sweep",
)

_MEAN = cp.RawKernel(
    r"""
extern "C" __global__
void mean(const float* partial, int count, float scale, float* shift) {
    if (blockIdx.x || threadIdx.x) return;
    float s = 0.f;
    for (int i = 0; i < count; ++i) s += partial[i];
    shift[0] = s * scale;
}
""",
    "mean",
)


class SlabSolver:
    BLOCKS = 64

    def __init__(self, n: int, slabs: int = 4):
        self.n, self.slabs = n, slabs
        self.rows = n // slabs
        self.u = cp.random.rand(n, n, dtype=cp.float32)
        self.v = cp.zeros_like(self.u)
        self.shift = cp.zeros(1, dtype=cp.float32)
        self.partial = cp.zeros((slabs, self.BLOCKS), dtype=cp.float32)
        self.streams: List[cp.cuda.Stream] = [cp.cuda.Stream() for _ in range(slabs)]

    def step(self) -> None:
        for k, stream in enumerate(self.streams):
            with stream:
                _SWEEP(
                    (self.BLOCKS,),
                    (256,),
                    (
                        self.u,
                        self.v,
                        self.shift,
                        self.partial[k],
                        np.int32(self.n),
                        np.int32(k * self.rows),
                        np.int32(self.rows),
                    ),
                )
        with cp.cuda.Stream.null:
            _MEAN(
                (1,),
                (1,),
                (
                    self.partial,
                    np.int32(self.partial.size),
                    np.float32(1.0 / (self.n * self.n)),
                    self.shift,
                ),
            )
        self.u, self.v = self.v, self.u

    def snapshot(self) -> np.ndarray:
        with cp.cuda.Stream.null:
            return cp.asnumpy(self.u)


def main(steps: int = 500) -> None:
    solver = SlabSolver(4096)
    for _ in range(steps):
        solver.step()
    print(float(np.abs(solver.snapshot()).max()))


if __name__ == "__main__":
    main()
