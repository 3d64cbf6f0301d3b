"""Thin wrapper around mpi4py for the model's communicator, and the global
diagnostics that use it with device arrays (CUDA-aware MPI)."""
import enum

import cupy as cp
from mpi4py import MPI


class ReductionOperator(enum.Enum):
    SUM = 0
    MAX = 1


class MPIComm:
    _op_mapping = {
        ReductionOperator.SUM: MPI.SUM,
        ReductionOperator.MAX: MPI.MAX,
    }

    def __init__(self):
        self._comm = MPI.COMM_WORLD

    def Get_rank(self):
        return self._comm.Get_rank()

    def Get_size(self):
        return self._comm.Get_size()

    def Allreduce_inplace(self, recvobj, op):
        return self._comm.Allreduce(MPI.IN_PLACE, recvobj, self._op_mapping[op])


class GlobalDiagnostics:
    def __init__(self, comm, n_levels):
        self.comm = comm
        self.mass = cp.zeros(n_levels, dtype=cp.float64)

    def tracer_mass(self, delp, q, area):
        """Column integrated tracer mass of the whole globe, by level."""
        self.mass[...] = (delp * q * area[None]).sum(axis=(1, 2))
        self.comm.Allreduce_inplace(self.mass, ReductionOperator.SUM)
        return self.mass


class TracerModel:
    def __init__(self, comm, n_levels=72, nx=192, ny=192):
        self.comm = comm
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            rng = cp.random.default_rng(comm.Get_rank())
            self.delp = rng.random((n_levels, ny, nx)) + 1.0
            self.q = rng.random((n_levels, ny, nx))
            self.area = cp.ones((ny, nx))
            self.diag = GlobalDiagnostics(comm, n_levels)

    def advance(self):
        self.q[:, :, 1:] = 0.5 * (self.q[:, :, 1:] + self.q[:, :, :-1])

    def fix_mass(self, before, after):
        self.q *= (before / after)[:, None, None]

    def run(self, steps):
        with self.stream:
            target = self.diag.tracer_mass(self.delp, self.q, self.area).copy()
            for _ in range(steps):
                self.advance()
                now = self.diag.tracer_mass(self.delp, self.q, self.area)
                self.fix_mass(target, now)
            return float(self.q.mean().get())


if __name__ == "__main__":
    comm = MPIComm()
    mean = TracerModel(comm).run(100)
    if comm.Get_rank() == 0:
        print("mean tracer", mean)
