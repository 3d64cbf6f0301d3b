from cuda import cudart

from .rt import Queue, call


class Pool:
    """All memory is taken and given back on one queue of the pool."""

    def __init__(self):
        self.queue = Queue()

    def take(self, size):
        return call(cudart.cudaMallocAsync, size, self.queue.stream)

    def give(self, ptr):
        call(cudart.cudaFreeAsync, ptr, self.queue.stream)
