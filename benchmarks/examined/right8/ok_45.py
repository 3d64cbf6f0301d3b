"""Managed-memory table: GPU update, prefetch to the host, host scan, prefetch back."""
import ctypes

import cupy as cp
import numpy as np

CPU = -1


class ManagedTable:
    def __init__(self, rows):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.mem = cp.cuda.malloc_managed(rows * 4)
        self.dev = cp.ndarray((rows,), cp.float32, self.mem)
        raw = (ctypes.c_float * rows).from_address(self.mem.ptr)
        self._host = np.ctypeslib.as_array(raw)
        self._host[:] = 0
        self._on_gpu = False

    def _prefetch(self, where):
        cp.cuda.runtime.memPrefetchAsync(self.mem.ptr, self.dev.nbytes, where, self.stream.ptr)

    @property
    def gpu(self):
        if not self._on_gpu:
            self._prefetch(cp.cuda.Device().id)
            self._on_gpu = True
        return self.dev

    @property
    def host(self):
        if self._on_gpu:
            self._prefetch(CPU)
            self.stream.synchronize()
            self._on_gpu = False
        return self._host


def relax(table, rounds):
    with table.stream:
        for _ in range(rounds):
            x = table.gpu
            x += 0.5 * (1.0 - x)


def main(rows=1 << 20):
    table = ManagedTable(rows)
    worst = []
    for k in range(6):
        relax(table, 3)
        view = table.host
        worst.append(float(view.min()))
        view[k::7] = 0.0
    relax(table, 1)
    worst.append(float(table.host.min()))
    return worst


if __name__ == "__main__":
    print(main())
