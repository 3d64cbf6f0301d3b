import numpy as np
from cuda import cudart

from device import D2D, new_stream, run


class Writer:
    """Lays the slots one behind the other into one device volume."""

    def __init__(self, count, size):
        self.size = size
        self.stream = new_stream()
        self.volume = run(cudart.cudaMalloc, count * size)
        self.count = count

    def consume(self, belt):
        at = self.volume
        for slot in belt:
            slot.hold(slot.full, self.stream)
            run(cudart.cudaMemcpyAsync, at, slot.ptr, self.size, D2D, self.stream)
            slot.stamp(slot.empty, self.stream)
            at += self.size

    def result(self):
        out = np.empty(self.count * self.size, dtype=np.uint8)
        run(cudart.cudaStreamSynchronize, self.stream)
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        run(cudart.cudaMemcpy, out.ctypes.data, self.volume, out.nbytes, kind)
        return out.reshape(self.count, self.size)
