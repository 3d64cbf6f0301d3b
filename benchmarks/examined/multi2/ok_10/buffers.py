import numpy as np
import pycuda.driver as drv


class Pair:
    """Page-locked array and its device twin."""

    def __init__(self, shape, dtype):
        self.host = drv.pagelocked_empty(shape, dtype)
        self.dev = drv.mem_alloc(self.host.nbytes)

    def up(self, stream):
        drv.memcpy_htod_async(self.dev, self.host, stream)

    def down(self, stream):
        drv.memcpy_dtoh_async(self.host, self.dev, stream)


class BufferSet(dict):
    def add(self, name, shape, dtype=np.float32):
        self[name] = Pair(shape, dtype)
        return self[name]

    def up(self, names, stream):
        for n in names:
            self[n].up(stream)

    def down(self, names, stream):
        for n in names:
            self[n].down(stream)

    @property
    def nbytes(self):
        return sum(p.host.nbytes for p in self.values())

    def free(self):
        for p in self.values():
            p.dev.free()
        self.clear()
