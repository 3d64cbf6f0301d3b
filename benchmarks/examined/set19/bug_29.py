"""Slab-to-pencil 3-D FFT: nvmath transforms around an NCCL transpose."""
import cupy as cp
import nvmath
from cupy.cuda import nccl
from mpi4py import MPI

FORWARD = nvmath.fft.FFTDirection.FORWARD


class Transpose:
    """All-to-all of equally sized complex blocks on a dedicated stream."""

    def __init__(self, comm):
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        uid = comm.bcast(nccl.get_unique_id() if self.rank == 0 else None)
        self.nccl = nccl.NcclCommunicator(self.size, uid, self.rank)
        self.stream = cp.cuda.Stream(non_blocking=True)

    def alltoall(self, send, recv):
        count = send[0].size * 2
        nccl.groupStart()
        for peer in range(self.size):
            self.nccl.send(send[peer].data.ptr, count, nccl.NCCL_FLOAT32, peer, self.stream.ptr)
            self.nccl.recv(recv[peer].data.ptr, count, nccl.NCCL_FLOAT32, peer, self.stream.ptr)
        nccl.groupEnd()


class DecompFFT:
    def __init__(self, comm, n):
        self.n = n
        self.local = n // comm.Get_size()
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.transpose = Transpose(comm)
        p = comm.Get_size()
        with self.compute:
            self.slab = cp.zeros((self.local, n, n), cp.complex64)
            self.pencil = cp.zeros((self.local, n, n), cp.complex64)
            self.send = cp.zeros((p, self.local, self.local, n), cp.complex64)
            self.recv = cp.zeros((p, self.local, self.local, n), cp.complex64)
        self.fft_xy = nvmath.fft.FFT(self.slab, axes=(1, 2), stream=self.compute)
        self.fft_z = nvmath.fft.FFT(self.pencil, axes=(2,), stream=self.compute)
        self.fft_xy.plan(stream=self.compute)
        self.fft_z.plan(stream=self.compute)

    def _pack(self, planes):
        blocks = planes.reshape(self.local, self.send.shape[0], self.local, self.n)
        self.send[...] = blocks.transpose(1, 0, 2, 3)

    def _unpack(self):
        blocks = self.recv.transpose(2, 3, 0, 1)
        self.pencil[...] = blocks.reshape(self.local, self.n, self.n)

    def forward(self, field):
        """Transform the local slab; the pencils come out ordered on compute."""
        with self.compute:
            self.slab[...] = field
            planes = self.fft_xy.execute(direction=FORWARD, stream=self.compute)
            self._pack(planes)
        self.transpose.stream.wait_event(self.compute.record())
        self.transpose.alltoall(self.send, self.recv)
        with self.compute:
            self._unpack()
            return self.fft_z.execute(direction=FORWARD, stream=self.compute)

    def free(self):
        self.compute.synchronize()
        self.transpose.stream.synchronize()
        self.fft_xy.free()
        self.fft_z.free()


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    engine = DecompFFT(comm, 512)
    with engine.compute:
        cp.random.seed(comm.Get_rank())
        field = cp.random.standard_normal((engine.local, 512, 512), dtype=cp.float32)
    for _ in range(10):
        spectrum = engine.forward(field)
        with engine.compute:
            field = cp.abs(spectrum) / 512.0
    with engine.compute:
        power = float((field ** 2).sum())
    print(comm.allreduce(power))
    engine.free()


if __name__ == "__main__":
    main()
