"""Ghost exchange of a distributed vector; device buffers go straight to a GPU aware MPI."""
import cupy as cp
import numpy as np
from mpi4py import MPI

_pack = cp.ElementwiseKernel(
    "raw float64 values, int64 index", "float64 packed", "packed = values[index]", "ghost_pack"
)


class Partitioner:
    """Indices which each neighbour imports from this rank, and ghost ranges received from it."""

    def __init__(self, comm, import_indices, ghost_ranges):
        self.comm = comm
        self.neighbours = sorted(import_indices)
        self.import_indices = {r: cp.asarray(import_indices[r], dtype=cp.int64) for r in self.neighbours}
        self.ghost_ranges = ghost_ranges
        cp.cuda.Device().synchronize()


class DistributedVector:
    def __init__(self, partitioner, n_owned, n_ghost):
        self.part = partitioner
        self.n_owned = n_owned
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.values = cp.zeros(n_owned + n_ghost, dtype=cp.float64)
        self.send = {r: cp.empty(len(ix), dtype=cp.float64) for r, ix in partitioner.import_indices.items()}
        cp.cuda.Device().synchronize()
        self._requests = []

    def update_ghost_values_start(self, tag=7):
        part = self.part
        for rank in part.neighbours:
            lo, hi = part.ghost_ranges[rank]
            self._requests.append(part.comm.Irecv(self.values[lo:hi], source=rank, tag=tag))
        with self.stream:
            for rank in part.neighbours:
                _pack(self.values, part.import_indices[rank], self.send[rank])
        for rank in part.neighbours:
            self._requests.append(part.comm.Isend(self.send[rank], dest=rank, tag=tag))

    def update_ghost_values_finish(self):
        MPI.Request.Waitall(self._requests)
        self._requests.clear()


_laplace = cp.ElementwiseKernel(
    "raw float64 u, raw int64 left, raw int64 right, float64 h2",
    "float64 out",
    "out = (u[left[i]] - 2.0 * u[i] + u[right[i]]) / h2",
    "laplace",
)


class HeatSolver:
    def __init__(self, vector, left, right, h):
        self.vec = vector
        self.left, self.right = cp.asarray(left), cp.asarray(right)
        self.rhs = cp.empty(vector.n_owned, dtype=cp.float64)
        self.h2 = h * h
        cp.cuda.Device().synchronize()

    def step(self, dt):
        vec = self.vec
        vec.update_ghost_values_start()
        vec.update_ghost_values_finish()
        with vec.stream:
            _laplace(vec.values, self.left, self.right, self.h2, self.rhs)
            vec.values[: vec.n_owned] += dt * self.rhs
            if not np.isfinite(dt):
                raise ValueError("time step is not finite")

    def run(self, steps, dt):
        for _ in range(steps):
            self.step(dt)
        self.vec.stream.synchronize()
        return cp.asnumpy(self.vec.values[: self.vec.n_owned])
