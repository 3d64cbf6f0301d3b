"""Dslash-like stencil with overlapped MPI halo exchange."""
from typing import Dict

import cupy as cp
import cupyx
import numpy as np
from mpi4py import MPI

_HALO = cp.ElementwiseKernel(
    "T lo, T hi", "T edge_lo, T edge_hi", "edge_lo += 0.5 * lo; edge_hi += 0.5 * hi", "halo_update"
)


class Direction:
    """One neighbour: staging buffers, a ghost plane and a stream."""

    def __init__(self, peer: int, tag: int, plane: tuple):
        self.peer, self.tag = peer, tag
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.unpacked = cp.cuda.Event(disable_timing=True)
        self.send_host = cupyx.zeros_pinned(plane, dtype=np.float64)
        self.recv_host = cupyx.zeros_pinned(plane, dtype=np.float64)
        self.ghost = cp.zeros(plane, dtype=cp.float64)
        self.send_req = MPI.REQUEST_NULL
        self.recv_req = MPI.REQUEST_NULL


class Stencil:
    def __init__(self, comm: MPI.Comm, shape=(128, 256, 256)):
        self.comm = comm
        self.field = cp.random.rand(*shape)
        self.next = cp.zeros_like(self.field)
        self.compute = cp.cuda.Stream(non_blocking=True)
        left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        plane = shape[1:]
        self.dirs: Dict[str, Direction] = {
            "lo": Direction(left, 7, plane),
            "hi": Direction(right, 9, plane),
        }
        self.edges = {"lo": 0, "hi": shape[0] - 1}
        cp.cuda.Device().synchronize()

    def _start(self) -> None:
        for name, d in self.dirs.items():
            with self.compute:
                face = self.field[self.edges[name]]
                face.get(stream=self.compute, out=d.send_host, blocking=False)
        self.compute.synchronize()
        for name, d in self.dirs.items():
            other = self.dirs["hi" if name == "lo" else "lo"]
            d.recv_req = self.comm.Irecv(d.recv_host, source=d.peer, tag=other.tag)
            d.send_req = self.comm.Isend(d.send_host, dest=d.peer, tag=d.tag)

    def _interior(self) -> None:
        with self.compute:
            self.next[1:-1] = 0.5 * (self.field[:-2] + self.field[2:])
            self.next[0] = 0.5 * self.field[1]
            self.next[-1] = 0.5 * self.field[-2]

    def _poll(self) -> Direction:
        pending = dict(self.dirs)
        last = None
        while pending:
            for name in list(pending):
                d = pending[name]
                if d.recv_req.Test():
                    d.ghost.set(d.recv_host, stream=d.stream)
                    d.unpacked.record(d.stream)
                    last = pending.pop(name)
        return last

    def apply(self) -> None:
        self._start()
        self._interior()
        last = self._poll()
        self.compute.wait_event(last.unpacked)
        with self.compute:
            _HALO(self.dirs["lo"].ghost, self.dirs["hi"].ghost, self.next[0], self.next[-1])
        self.field, self.next = self.next, self.field
        for d in self.dirs.values():
            d.send_req.Wait()
        self.compute.synchronize()
        for d in self.dirs.values():
            d.stream.synchronize()

    def norm(self) -> float:
        with self.compute:
            local = float(cp.linalg.norm(self.field))
        return float(np.sqrt(self.comm.allreduce(local * local)))


def main(iterations: int = 200) -> None:
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    stencil = Stencil(comm)
    for it in range(iterations):
        stencil.apply()
        if it % 50 == 0 and comm.rank >= 0:
            print(comm.rank, it, stencil.norm())


if __name__ == "__main__":
    main()
