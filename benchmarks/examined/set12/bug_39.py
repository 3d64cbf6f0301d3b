import cupy as cp
import numpy as np
from mpi4py import MPI


class PGemm:
    """C = A^H B for matrices that are distributed by columns over the ranks."""

    def __init__(self, comm, ncol_local, nrow):
        self.comm = comm
        self.rank = comm.Get_rank()
        self.size = comm.Get_size()
        self.nrow = nrow
        self.ncols = comm.allgather(ncol_local)
        self.offsets = np.concatenate(([0], np.cumsum(self.ncols)))
        self.max_ncol = max(self.ncols)
        self.recv = [
            cp.empty((nrow, n), dtype=cp.complex128) if r != self.rank else None
            for r, n in enumerate(self.ncols)
        ]
        self.send = cp.empty((nrow, ncol_local), dtype=cp.complex128)
        cp.cuda.get_current_stream().synchronize()

    def _exchange(self, A, bands):
        cp.take(A, bands, axis=1, out=self.send)
        requests = []
        for r in range(self.size):
            if r == self.rank:
                continue
            requests.append(self.comm.Irecv(self.recv[r], source=r, tag=7))
        for r in range(self.size):
            if r == self.rank:
                continue
            requests.append(self.comm.Isend(self.send, dest=r, tag=7))
        return requests

    def multiply_col(self, A, B, bands):
        out = cp.empty((int(self.offsets[-1]), B.shape[1]), dtype=cp.complex128)
        requests = self._exchange(A, bands)
        begin, end = self.offsets[self.rank], self.offsets[self.rank + 1]
        out[begin:end] = self.send.conj().T @ B
        MPI.Request.Waitall(requests)
        for r in range(self.size):
            if r != self.rank:
                begin, end = self.offsets[r], self.offsets[r + 1]
                out[begin:end] = self.recv[r].conj().T @ B
        cp.cuda.get_current_stream().synchronize()
        return out


def subspace_hamiltonian(comm, psi, apply_h, nbands_local):
    gemm = PGemm(comm, nbands_local, psi.shape[0])
    bands = cp.argsort(cp.linalg.norm(psi, axis=0))[:nbands_local]
    hpsi = apply_h(psi)
    return gemm.multiply_col(psi, hpsi, bands)
