"""Parallel reductions over device vectors."""
import cupy as cp
import cupyx
import numpy as np
from mpi4py import MPI


class Gpu:
    """Process-wide stream and settings."""

    def __init__(self, use_gpu_aware_mpi):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.use_gpu_aware_mpi = use_gpu_aware_mpi

    def copy_to_host(self, dvec):
        host = cupyx.empty_pinned(dvec.shape, dtype=dvec.dtype)
        dvec.get(stream=self.stream, out=host, blocking=False)
        self.stream.synchronize()
        return host

    def copy_to_device(self, host, dvec):
        dvec.set(host, stream=self.stream)
        self.stream.synchronize()


class ParallelReduce:
    def __init__(self, comm, gpu):
        self.comm = comm
        self.gpu = gpu

    def sum(self, dvec):
        if self.gpu.use_gpu_aware_mpi:
            self.comm.Allreduce(MPI.IN_PLACE, dvec, op=MPI.SUM)
        else:
            host = self.gpu.copy_to_host(dvec)
            self.comm.Allreduce(MPI.IN_PLACE, host, op=MPI.SUM)
            self.gpu.copy_to_device(host, dvec)
        return dvec


DEPOSIT = cp.RawKernel(r"""
extern "C" __global__ void deposit(const float* x, const float* w, int np, float* grid, int nx) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < np) atomicAdd(&grid[(int)(x[i] * nx) % nx], w[i]);
}
""", "deposit")


class ParticleMesh:
    def __init__(self, comm, npart, nx):
        self.gpu = Gpu(use_gpu_aware_mpi=True)
        self.reduce = ParallelReduce(comm, self.gpu)
        self.nx = nx
        with self.gpu.stream:
            self.x = cp.random.random(npart, dtype=cp.float32)
            self.w = cp.ones(npart, dtype=cp.float32)
            self.rho = cp.zeros(nx, dtype=cp.float32)

    def step(self, dt):
        n = self.x.size
        with self.gpu.stream:
            self.rho.fill(0)
            DEPOSIT(((n + 255) // 256,), (256,),
                    (self.x, self.w, np.int32(n), self.rho, np.int32(self.nx)))
        self.reduce.sum(self.rho)
        with self.gpu.stream:
            idx = (self.x * self.nx).astype(cp.int32) % self.nx
            self.x += dt * cp.gradient(self.rho)[idx] / self.rho.sum()
            self.x -= cp.floor(self.x)


def main():
    mesh = ParticleMesh(MPI.COMM_WORLD, npart=1 << 20, nx=4096)
    for _ in range(20):
        mesh.step(1e-3)
    mesh.gpu.stream.synchronize()
    return float(mesh.x.mean())


if __name__ == "__main__":
    print(main())
