"""Managed arrays that the host edits between device sweeps, with prefetches in both directions."""
import ctypes

import cupy as cp
import numpy as np

HOST = -1


class Managed:
    def __init__(self, shape, dtype=np.float32):
        self.dtype = np.dtype(dtype)
        n = int(np.prod(shape))
        self.mem = cp.cuda.malloc_managed(n * self.dtype.itemsize)
        self.dev = cp.ndarray(shape, self.dtype, memptr=self.mem)
        raw = (ctypes.c_char * self.dev.nbytes).from_address(self.mem.ptr)
        self.cpu = np.frombuffer(raw, self.dtype).reshape(shape)

    def prefetch(self, where: int, stream: cp.cuda.Stream):
        cp.cuda.runtime.memPrefetchAsync(self.mem.ptr, self.dev.nbytes, where, stream.ptr)


class Relaxation:
    def __init__(self, n: int):
        self.u = Managed((n, n))
        self.tmp = Managed((n, n))
        self.u.cpu[...] = 0
        self.tmp.cpu[...] = 0
        self.u.cpu[0, :] = 1
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.device = cp.cuda.Device().id

    def on_device(self):
        self.u.prefetch(self.device, self.stream)
        self.tmp.prefetch(self.device, self.stream)

    def on_host(self) -> np.ndarray:
        self.u.prefetch(HOST, self.stream)
        self.stream.synchronize()
        return self.u.cpu

    def sweep(self, count: int):
        u, t = self.u.dev, self.tmp.dev
        with self.stream:
            for _ in range(count):
                t[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
                u[1:-1, 1:-1] = t[1:-1, 1:-1]


def main():
    job = Relaxation(1024)
    for phase in range(5):
        job.on_device()
        job.sweep(20)
        field = job.on_host()
        field[0, :] *= 0.9
        field[:, -1] = phase * 0.1
    print(float(job.on_host().mean()))


if __name__ == "__main__":
    main()
