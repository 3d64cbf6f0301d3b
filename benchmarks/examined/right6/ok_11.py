import ctypes

import cupy as cp
import numpy as np

CPU_DEVICE = -1


class ManagedGrid:
    """A managed block that alternates between host edits and device sweeps."""

    def __init__(self, shape, device=0):
        self.shape = shape
        self.device = device
        self.stream = cp.cuda.Stream(non_blocking=True)
        count = int(np.prod(shape))
        self.mem = cp.cuda.malloc_managed(count * 4)
        self.gpu = cp.ndarray(shape, cp.float32, memptr=self.mem)
        raw = (ctypes.c_float * count).from_address(self.mem.ptr)
        self._cpu = np.frombuffer(raw, dtype=np.float32).reshape(shape)

    @property
    def host(self):
        cp.cuda.runtime.memPrefetchAsync(
            self.mem.ptr, self.gpu.nbytes, CPU_DEVICE, self.stream.ptr)
        self.stream.synchronize()
        return self._cpu

    def sweep(self, rounds):
        cp.cuda.runtime.memPrefetchAsync(
            self.mem.ptr, self.gpu.nbytes, self.device, self.stream.ptr)
        with self.stream:
            for _ in range(rounds):
                inner = (self.gpu[:-2, 1:-1] + self.gpu[2:, 1:-1]
                         + self.gpu[1:-1, :-2] + self.gpu[1:-1, 2:]) * np.float32(0.25)
                self.gpu[1:-1, 1:-1] = inner


def main():
    grid = ManagedGrid((1024, 1024))
    view = grid.host
    view[...] = 0.0
    for hot in range(5):
        grid.host[0, :] = 100.0 + hot
        grid.sweep(50)
        print(hot, float(grid.host[1:10, 512].mean()))


if __name__ == "__main__":
    main()
