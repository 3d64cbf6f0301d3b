"""Delayed inverse updates for a crowd of walkers (PyCUDA)."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

_SOURCE = r"""
__global__ void ratios(const float* inv, const float* psi, float* out, int n, int row) {
    extern __shared__ float acc[];
    int t = threadIdx.x;
    float s = 0.f;
    for (int k = t; k < n; k += blockDim.x) s += inv[row * n + k] * psi[k];
    acc[t] = s;
    __syncthreads();
    for (int w = blockDim.x / 2; w > 0; w >>= 1) {
        if (t < w) acc[t] += acc[t + w];
        __syncthreads();
    }
    if (t == 0) out[0] = acc[0];
}
"""


class DelayedUpdate:
    def __init__(self, n):
        self.n = n
        self.stream = drv.Stream()
        self.inv_gpu = drv.mem_alloc(n * n * 4)
        self.psi_gpu = drv.mem_alloc(n * 4)
        self.ratio_gpu = drv.mem_alloc(4)
        self.ratio_host = drv.pagelocked_empty(1, np.float32)
        self.psi_host = drv.pagelocked_empty(n, np.float32)


class WalkerCrowd:
    """One engine per walker. The host side inverse passes through one page-locked matrix."""

    def __init__(self, walkers, n):
        module = SourceModule(_SOURCE)
        self.kernel = module.get_function("ratios")
        self.n = n
        self.engines = [DelayedUpdate(n) for _ in range(walkers)]
        self.staging = drv.pagelocked_empty((n, n), np.float32)

    def initialize_inv(self, slater_matrices):
        inverses = np.linalg.inv(slater_matrices)
        for engine, inverse in zip(self.engines, inverses):
            self.staging[:] = inverse
            drv.memcpy_htod_async(engine.inv_gpu, self.staging, engine.stream)

    def propose(self, row, orbitals):
        for engine, psi in zip(self.engines, orbitals):
            engine.stream.synchronize()
            engine.psi_host[:] = psi
            drv.memcpy_htod_async(engine.psi_gpu, engine.psi_host, engine.stream)
            self.kernel(
                engine.inv_gpu,
                engine.psi_gpu,
                engine.ratio_gpu,
                np.int32(self.n),
                np.int32(row),
                block=(256, 1, 1),
                grid=(1, 1),
                shared=256 * 4,
                stream=engine.stream,
            )
            drv.memcpy_dtoh_async(engine.ratio_host, engine.ratio_gpu, engine.stream)
        ratios = []
        for engine in self.engines:
            engine.stream.synchronize()
            ratios.append(float(engine.ratio_host[0]))
        return ratios


class VMC:
    def __init__(self, walkers=32, n=512, seed=0):
        self.rng = np.random.default_rng(seed)
        self.crowd = WalkerCrowd(walkers, n)
        self.walkers = walkers
        self.n = n
        self.accepted = 0

    def _matrices(self):
        noise = self.rng.normal(size=(self.walkers, self.n, self.n))
        return noise + self.n * np.eye(self.n)

    def block(self, steps):
        self.crowd.initialize_inv(self._matrices())
        for step in range(steps):
            psi = self.rng.normal(size=(self.walkers, self.n)).astype(np.float32)
            for ratio in self.crowd.propose(step % self.n, psi):
                self.accepted += ratio * ratio > self.rng.random()
        return self.accepted


def main():
    vmc = VMC()
    for _ in range(4):
        print(vmc.block(steps=20))


if __name__ == "__main__":
    main()
