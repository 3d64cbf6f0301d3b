import ctypes

import numpy as np
from cuda.bindings import runtime as cudart
from mpi4py import MPI


def check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error: {err.name}")
    return values[0] if values else None


class HostStaging:

    def __init__(self):
        self._ptr = 0
        self._size = 0

    def get(self, nbytes):
        if nbytes > self._size:
            if self._ptr:
                check(cudart.cudaFreeHost(self._ptr))
            self._ptr = check(cudart.cudaMallocHost(nbytes))
            self._size = nbytes
        return self._ptr

    def view(self, nbytes):
        ptr = self.get(nbytes)
        buf = (ctypes.c_byte * nbytes).from_address(ptr)
        return ptr, np.frombuffer(buf, dtype=np.byte)


class GPUBridge:
    """Targets of the GPU custom calls; each gets XLA's stream and device pointers."""

    def __init__(self, comm, copy_to_host):
        self.comm = comm
        self.copy_to_host = copy_to_host
        self.staging_in = HostStaging()
        self.staging_out = HostStaging()

    def _stage_in(self, stream, ptr, nbytes):
        host, array = self.staging_in.view(nbytes)
        check(cudart.cudaMemcpyAsync(
            host, ptr, nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, stream))
        check(cudart.cudaStreamSynchronize(stream))
        return array

    def _stage_out(self, stream, ptr, host, nbytes):
        check(cudart.cudaMemcpyAsync(
            ptr, host, nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, stream))
        check(cudart.cudaStreamSynchronize(stream))

    def mpi_allreduce(self, stream, in_ptr, out_ptr, nitems, dtype, op=MPI.SUM):
        dtype = np.dtype(dtype)
        nbytes = nitems * dtype.itemsize
        if not self.copy_to_host:
            raise NotImplementedError("needs a GPU-aware MPI")
        send = self._stage_in(stream, in_ptr, nbytes).view(dtype)
        host, recv = self.staging_out.view(nbytes)
        self.comm.Allreduce(send, recv.view(dtype), op=op)
        self._stage_out(stream, out_ptr, host, nbytes)

    def mpi_bcast(self, stream, ptr, nitems, dtype, root):
        nbytes = nitems * np.dtype(dtype).itemsize
        if self.comm.Get_rank() == root:
            self.comm.Bcast(self._stage_in(stream, ptr, nbytes), root=root)
            return
        host, recv = self.staging_out.view(nbytes)
        self.comm.Bcast(recv, root=root)
        self._stage_out(stream, ptr, host, nbytes)
