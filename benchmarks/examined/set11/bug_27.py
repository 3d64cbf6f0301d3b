"""Parallel-in-time iteration over MPI with the solution kept on the GPU."""
from typing import Callable, Optional

import cupy as cp
from mpi4py import MPI


class MeshMPI:
    """Communicator facade used by the controllers; everything it does not define goes to MPI."""

    def __init__(self, comm: MPI.Comm):
        self.commMPI = comm

    @property
    def rank(self) -> int:
        return self.commMPI.Get_rank()

    @property
    def size(self) -> int:
        return self.commMPI.Get_size()

    def __getattr__(self, name):
        return getattr(self.commMPI, name)

    def converged(self, residual: float, tol: float) -> bool:
        return self.commMPI.allreduce(residual < tol, op=MPI.LAND)


class Level:
    def __init__(self, u0: cp.ndarray, dt: float, num_nodes: int):
        self.dt = dt
        self.u0 = u0.copy()
        self.u = cp.repeat(u0[None], num_nodes + 1, axis=0)
        self.uend = u0.copy()
        self.weights = cp.full(num_nodes, 1.0 / num_nodes)


class ControllerMPI:
    def __init__(self, comm: MPI.Comm, level: Level, rhs: Callable[[cp.ndarray, float], cp.ndarray]):
        self.comm = MeshMPI(comm)
        self.level = level
        self.rhs = rhs
        self.req_send: Optional[MPI.Request] = None
        self.recv_buffer = cp.empty_like(level.u0)
        cp.cuda.get_current_stream().synchronize()

    def sweep(self, time: float) -> None:
        lvl = self.level
        lvl.u[0] = lvl.u0
        for m in range(lvl.u.shape[0] - 1):
            lvl.u[m + 1] = lvl.u[m] + lvl.dt * lvl.weights[m] * self.rhs(lvl.u[m], time)

    def compute_end_point(self) -> float:
        lvl = self.level
        new = lvl.u[-1]
        residual = cp.max(cp.abs(new - lvl.uend))
        value = float(residual)
        cp.add(new, 0.5 * lvl.dt * (new - lvl.u[-2]), out=lvl.uend)
        return value

    def send_forward(self, tag: int) -> None:
        if self.comm.rank < self.comm.size - 1:
            self.req_send = self.comm.Isend(self.level.uend, dest=self.comm.rank + 1, tag=tag)

    def receive(self, tag: int) -> None:
        if self.comm.rank > 0:
            self.comm.Recv(self.recv_buffer, source=self.comm.rank - 1, tag=tag)
            self.level.u0[...] = self.recv_buffer
            cp.cuda.get_current_stream().synchronize()

    def run(self, time: float, max_iter: int, tol: float) -> cp.ndarray:
        for k in range(max_iter):
            self.sweep(time)
            if self.req_send is not None:
                self.req_send.Wait()
                self.req_send = None
            residual = self.compute_end_point()
            self.send_forward(tag=k)
            self.receive(tag=k)
            if self.comm.converged(residual, tol):
                break
        if self.req_send is not None:
            self.req_send.Wait()
        return self.level.uend
