"""Gradient accumulation over MPI without CUDA-aware transport: Iallreduce on host copies, one bucket behind."""
import cupy as cp
import cupyx
import numpy as np
from mpi4py import MPI


class Bucket:
    def __init__(self, n):
        self.grad = cp.zeros(n, cp.float32)
        self.host = cupyx.zeros_pinned((n,), np.float32)
        self.sum = cupyx.zeros_pinned((n,), np.float32)
        self.copied = cp.cuda.Event(block=True, disable_timing=True)
        self.loaded = cp.cuda.Event(block=True, disable_timing=True)
        self.req = MPI.REQUEST_NULL


class Reducer:
    def __init__(self, comm, sizes, stream):
        self.comm = comm
        self.stream = stream
        self.copy = cp.cuda.Stream(non_blocking=True)
        self.buckets = [Bucket(n) for n in sizes]
        self._sent = []

    def push(self, k: int):
        b = self.buckets[k]
        self.copy.wait_event(self.stream.record())
        b.grad.data.copy_to_host_async(b.host.ctypes.data, b.grad.nbytes, self.copy)
        b.copied.record(self.copy)
        self._sent.append(b)
        if len(self._sent) > 1:
            self._post(self._sent[-2])

    def _post(self, b: Bucket):
        b.copied.synchronize()
        b.loaded.synchronize()
        b.req = self.comm.Iallreduce(b.host, b.sum, MPI.SUM)

    def finish(self):
        self._post(self._sent[-1])
        for b in self._sent:
            b.req.Wait()
            b.grad.data.copy_from_host_async(b.sum.ctypes.data, b.grad.nbytes, self.copy)
            b.loaded.record(self.copy)
        self._sent.clear()
        self.stream.wait_event(self.copy.record())


def main(steps=20):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    stream = cp.cuda.Stream(non_blocking=True)
    sizes = [1 << 16, 1 << 18, 1 << 17]
    red = Reducer(comm, sizes, stream)
    weights = [cp.ones(n, cp.float32) for n in sizes]
    for b in red.buckets:
        b.loaded.record()
    cp.cuda.Device().synchronize()
    with stream:
        for step in range(steps):
            for k, w in enumerate(weights):
                cp.multiply(w, np.float32(0.01 * (comm.Get_rank() + 1)), out=red.buckets[k].grad)
                red.push(k)
            red.finish()
            for k, w in enumerate(weights):
                w -= red.buckets[k].grad / np.float32(comm.Get_size())
    stream.synchronize()
    print(comm.Get_rank(), [float(cp.asnumpy(w).mean()) for w in weights])


if __name__ == "__main__":
    main()
