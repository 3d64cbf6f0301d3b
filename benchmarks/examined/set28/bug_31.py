"""Batched ridge regression: normal equations with cuBLAS, factorisation with cuSOLVER."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import pycuda.gpuarray as gpuarray
from skcuda import cublas, cusolver


class RidgeHandle:
    """Owns the library handles that one ridge solve needs."""

    def __init__(self, stream):
        self.blas = cublas.cublasCreate()
        self.solver = cusolver.cusolverDnCreate()
        cublas.cublasSetStream(self.blas, stream.handle)
        cusolver.cusolverDnSetStream(self.solver, stream.handle)

    def set_stream(self, stream):
        cublas.cublasSetStream(self.blas, stream.handle)

    def destroy(self):
        cublas.cublasDestroy(self.blas)
        cusolver.cusolverDnDestroy(self.solver)


class RidgeProblem:
    """Column-major design matrix (n x p), one right-hand side, and work space."""

    def __init__(self, n, p):
        self.n, self.p = n, p
        self.h_x = drv.pagelocked_empty((p, n), np.float32)
        self.h_y = drv.pagelocked_empty(n, np.float32)
        self.h_beta = drv.pagelocked_empty(p, np.float32)
        self.x = gpuarray.empty((p, n), np.float32)
        self.y = gpuarray.empty(n, np.float32)
        self.gram = gpuarray.empty((p, p), np.float32)
        self.beta = gpuarray.empty(p, np.float32)
        self.info = gpuarray.zeros(1, np.int32)
        self.work = None
        self.lwork = 0

    def fill(self, rng):
        self.h_x[...] = rng.standard_normal(self.h_x.shape, dtype=np.float32)
        self.h_y[...] = rng.standard_normal(self.n, dtype=np.float32)


class RidgeSolver:
    def __init__(self, n, p, num_streams=3):
        self.streams = [drv.Stream() for _ in range(num_streams)]
        self.problems = [RidgeProblem(n, p) for _ in range(num_streams)]
        self.handle = RidgeHandle(self.streams[0])
        for prob in self.problems:
            prob.lwork = cusolver.cusolverDnSpotrf_bufferSize(
                self.handle.solver, "l", p, prob.gram.gpudata, p
            )
            prob.work = gpuarray.empty(prob.lwork, np.float32)
        drv.Context.synchronize()

    def _enqueue(self, prob, stream, eye, lam):
        h = self.handle
        n, p = prob.n, prob.p
        h.set_stream(stream)
        drv.memcpy_htod_async(prob.x.gpudata, prob.h_x, stream)
        drv.memcpy_htod_async(prob.y.gpudata, prob.h_y, stream)
        drv.memcpy_dtod_async(prob.gram.gpudata, eye.gpudata, eye.nbytes, stream)
        cublas.cublasSgemm(
            h.blas, "t", "n", p, p, n, 1.0, prob.x.gpudata, n, prob.x.gpudata, n,
            lam, prob.gram.gpudata, p,
        )
        cublas.cublasSgemv(
            h.blas, "t", n, p, 1.0, prob.x.gpudata, n, prob.y.gpudata, 1,
            0.0, prob.beta.gpudata, 1,
        )
        cusolver.cusolverDnSpotrf(
            h.solver, "l", p, prob.gram.gpudata, p, prob.work.gpudata, prob.lwork,
            prob.info.gpudata,
        )
        for trans in ("n", "t"):
            cublas.cublasStrsm(
                h.blas, "l", "l", trans, "n", p, 1, 1.0, prob.gram.gpudata, p,
                prob.beta.gpudata, p,
            )
        drv.memcpy_dtoh_async(prob.h_beta, prob.beta.gpudata, stream)

    def solve(self, rounds, lam=0.1, seed=0):
        rng = np.random.default_rng(seed)
        eye = gpuarray.to_gpu(np.eye(self.problems[0].p, dtype=np.float32))
        out = []
        for _ in range(rounds):
            for prob, stream in zip(self.problems, self.streams):
                prob.fill(rng)
                self._enqueue(prob, stream, eye, lam)
            for prob, stream in zip(self.problems, self.streams):
                stream.synchronize()
            drv.Context.synchronize()
            out.extend(prob.h_beta.copy() for prob in self.problems)
        return np.stack(out)


if __name__ == "__main__":
    print(RidgeSolver(n=20000, p=256).solve(rounds=20).shape)
