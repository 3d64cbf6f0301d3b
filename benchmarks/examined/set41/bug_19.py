"""Spill manager: device columns kept in RMM buffers and evicted to pinned memory."""
from collections import OrderedDict

import cupy as cp
import cupyx
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator
from rmm.pylibrmm.stream import Stream


class Column:
    def __init__(self, name, dtype, length):
        self.name, self.dtype, self.length = name, np.dtype(dtype), length
        self.buffer = None
        self.host = None

    @property
    def nbytes(self):
        return self.dtype.itemsize * self.length


class SpillManager:
    def __init__(self, limit_bytes, slots, slot_bytes):
        rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
        cp.cuda.set_allocator(rmm_cupy_allocator)
        self.slots = [cupyx.empty_pinned(slot_bytes, dtype=np.uint8) for _ in range(slots)]
        self.limit = limit_bytes
        self.used = 0
        self.columns = OrderedDict()
        self.cp_fill = cp.cuda.Stream(non_blocking=True)
        self.cp_evict = cp.cuda.Stream(non_blocking=True)
        self.fill = Stream(self.cp_fill)
        self.evict = Stream(self.cp_evict)

    def insert(self, name, make):
        with self.cp_fill:
            values = make()
            col = Column(name, values.dtype, values.size)
            col.buffer = rmm.DeviceBuffer(size=col.nbytes, stream=self.fill)
            col.buffer.copy_from_device(values, stream=self.fill)
        self.columns[name] = col
        self.used += col.nbytes
        while self.used > self.limit:
            self._spill_oldest(keep=None if len(self.columns) == 1 else name)
        return col

    def _spill_oldest(self, keep):
        for name, col in self.columns.items():
            if col.buffer is not None and name != keep:
                self.spill(col)
                return
        raise MemoryError("nothing left to spill")

    def spill(self, col):
        host = self.slots.pop()[: col.nbytes]
        col.buffer.copy_to_host(host, stream=self.evict)
        self.evict.synchronize()
        col.host = host
        col.buffer = None
        self.used -= col.nbytes

    def read(self, name):
        col = self.columns[name]
        if col.host is None:
            self.fill.synchronize()
            self.spill(col)
        return col.host.view(col.dtype)


def make_column(kind, length):
    def build():
        base = cp.arange(length, dtype=cp.float64)
        for _ in range(16):
            base = cp.sqrt(base * base + 1.0)
        return base * (kind + 1)
    return build


def main():
    length = 4_000_000
    manager = SpillManager(2 * length * 8, slots=8, slot_bytes=length * 8)
    for k in range(8):
        manager.insert(f"c{k}", make_column(k, length))
    for k in range(8):
        values = manager.read(f"c{k}")
        print(k, values[:3], values.mean())


if __name__ == "__main__":
    main()
