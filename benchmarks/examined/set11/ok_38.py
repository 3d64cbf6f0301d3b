"""Distributed transposition of CuPy arrays with a CUDA-aware MPI."""
from typing import List, Tuple

import cupy as cp
import numpy as np
from mpi4py import MPI


class AlltoallwCuda:
    """Replacement of ``Alltoallw`` for device arrays: packs on the GPU, exchanges, unpacks."""

    def __init__(self, comm: MPI.Comm, shape: Tuple[int, int], dtype=cp.complex128):
        self.comm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.rows = self._bounds(shape[0])
        self.cols = self._bounds(shape[1])
        self.local_in = (self.rows[self.rank + 1] - self.rows[self.rank], shape[1])
        self.local_out = (self.cols[self.rank + 1] - self.cols[self.rank], shape[0])
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.send: List[cp.ndarray] = [
                cp.empty((self.local_in[0], self.cols[p + 1] - self.cols[p]), dtype) for p in range(self.size)
            ]
            self.recv: List[cp.ndarray] = [
                cp.empty((self.rows[p + 1] - self.rows[p], self.local_out[0]), dtype) for p in range(self.size)
            ]
        self.stream.synchronize()

    def _bounds(self, n: int) -> np.ndarray:
        return np.linspace(0, n, self.size + 1).astype(int)

    def transpose(self, local: cp.ndarray) -> cp.ndarray:
        ready = cp.cuda.get_current_stream().record()
        self.stream.wait_event(ready)
        with self.stream:
            for p in range(self.size):
                self.send[p][...] = local[:, self.cols[p] : self.cols[p + 1]]
        # MPI does not know about streams
        self.stream.synchronize()

        requests = []
        for step in range(self.size):
            source, target = (self.rank - step) % self.size, (self.rank + step) % self.size
            requests.append(self.comm.Irecv(self.recv[source], source=source, tag=7))
            requests.append(self.comm.Isend(self.send[target], dest=target, tag=7))
        MPI.Request.Waitall(requests)

        with self.stream:
            out = cp.empty(self.local_out, dtype=local.dtype)
            for p in range(self.size):
                out[:, self.rows[p] : self.rows[p + 1]] = self.recv[p].T
            done = self.stream.record()
        cp.cuda.get_current_stream().wait_event(done)
        self.stream.synchronize()
        return out


def spectral_filter(comm: MPI.Comm, local: cp.ndarray, shape: Tuple[int, int], cutoff: float) -> cp.ndarray:
    forward = AlltoallwCuda(comm, shape)
    backward = AlltoallwCuda(comm, shape[::-1])
    spectrum = forward.transpose(cp.fft.fft(local, axis=1))
    spectrum = cp.fft.fft(spectrum, axis=1)
    k = cp.abs(cp.fft.fftfreq(shape[0]))
    spectrum *= (k < cutoff)[None, :]
    spectrum = cp.fft.ifft(spectrum, axis=1)
    return cp.fft.ifft(backward.transpose(spectrum), axis=1)
