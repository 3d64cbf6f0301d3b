"""Allreduce of device arrays through pinned host buffers, queued on a given stream."""
import cupy as cp
import cupyx
import numpy as np
from mpi4py import MPI


class HostSlot:
    """Send and receive buffers of one collective call."""

    def __init__(self, nbytes):
        self.send = cupyx.empty_pinned(nbytes, dtype=np.uint8)
        self.recv = cupyx.empty_pinned(nbytes, dtype=np.uint8)
        self.uploaded = cp.cuda.Event(disable_timing=True)
        self.in_use = False

    def wait_until_free(self):
        if self.in_use:
            self.uploaded.synchronize()
            self.in_use = False


class StreamComm:
    """MPI communicator for device buffers; calls are ordered on the caller's stream."""

    def __init__(self, comm, max_bytes, depth=4):
        self.comm = comm
        self.slots = [HostSlot(max_bytes) for _ in range(depth)]
        self.calls = 0

    def _next_slot(self):
        slot = self.slots[self.calls % len(self.slots)]
        self.calls += 1
        slot.wait_until_free()
        return slot

    def allreduce(self, array, stream, op=MPI.SUM):
        slot = self._next_slot()
        n = array.nbytes
        send = slot.send[:n].view(array.dtype)
        recv = slot.recv[:n].view(array.dtype)
        array.data.copy_to_host_async(send.ctypes.data, n, stream)
        stream.synchronize()
        self.comm.Allreduce(send, recv, op=op)
        array.data.copy_from_host_async(recv.ctypes.data, n, stream)
        slot.uploaded.record(stream)
        slot.in_use = True
        return array

    def finalize(self):
        for slot in self.slots:
            slot.wait_until_free()


_lap = cp.ElementwiseKernel(
    "float64 u, float64 avg, float64 rate", "float64 out", "out = u + rate * (avg - u)", "relax")


class Consensus:
    """Ranks relax their state towards the average of all ranks."""

    def __init__(self, comm, size, rate=0.25):
        self.world = comm.Get_size()
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.comm = StreamComm(comm, size * 8)
        self.rate = rate
        with self.stream:
            self.state = cp.random.default_rng(comm.Get_rank()).random(size)
            self.avg = cp.empty_like(self.state)

    def step(self):
        with self.stream:
            cp.divide(self.state, self.world, out=self.avg)
            self.comm.allreduce(self.avg, self.stream)
            _lap(self.state, self.avg, self.rate, self.state)

    def spread(self):
        with self.stream:
            gap = cp.abs(self.state - self.avg).max().reshape(1)
            self.comm.allreduce(gap, self.stream, op=MPI.MAX)
            return float(gap[0])


def main(size=1 << 20, steps=40):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    solver = Consensus(comm, size)
    for _ in range(steps):
        solver.step()
    spread = solver.spread()
    solver.comm.finalize()
    if comm.Get_rank() == 0:
        print(spread)


if __name__ == "__main__":
    main()
