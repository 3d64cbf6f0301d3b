import numpy as np
from numba import cuda


class Lane:
    """One frame on its way: buffers on both sides and a stream."""

    def __init__(self, shape):
        self.stream = cuda.stream()
        self.done = cuda.event(timing=False)
        self.h_in = cuda.pinned_array(shape, dtype=np.float32)
        self.h_out = cuda.pinned_array(shape, dtype=np.float32)
        self.d_in = cuda.device_array(shape, dtype=np.float32)
        self.d_out = cuda.device_array(shape, dtype=np.float32)
        self.frame = -1


class LaneSet:
    def __init__(self, n, shape):
        self.lanes = [Lane(shape) for _ in range(n)]

    def __len__(self):
        return len(self.lanes)

    def for_frame(self, i):
        return self.lanes[i % len(self.lanes)]

    @property
    def host_bytes(self):
        return sum(l.h_in.nbytes + l.h_out.nbytes for l in self.lanes)

    def frames(self):
        return [l.frame for l in self.lanes]
