from contextlib import contextmanager

from cuda import cudart

from .check import ok


class Arena:
    """Short-lived device memory of the stream-ordered allocator."""

    def __init__(self, lane):
        self.lane = lane
        self.live = 0
        device = ok(cudart.cudaGetDevice())
        self._pool = ok(cudart.cudaDeviceGetDefaultMemPool(device))

    def take(self, size):
        self.live += size
        return ok(cudart.cudaMallocFromPoolAsync(size, self._pool, self.lane.handle))

    def give(self, ptr, size):
        self.live -= size
        ok(cudart.cudaFreeAsync(ptr, self.lane.handle))

    @contextmanager
    def room(self, size, users=()):
        ptr = self.take(size)
        for user in users:
            user.after(self.lane)
        try:
            yield ptr
        finally:
            self.give(ptr, size)
