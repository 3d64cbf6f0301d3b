from cuda import cudart

from .check import ok


class Lane:
    """A stream with the few operations that the tools here need."""

    def __init__(self):
        self.handle = ok(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self._mark = ok(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))

    def after(self, other):
        ok(cudart.cudaEventRecord(other._mark, other.handle))
        ok(cudart.cudaStreamWaitEvent(self.handle, other._mark, 0))
        return self

    def fill(self, ptr, byte, size):
        ok(cudart.cudaMemsetAsync(ptr, byte, size, self.handle))

    def copy(self, dst, src, size):
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        ok(cudart.cudaMemcpyAsync(dst, src, size, kind, self.handle))

    def fetch(self, array, src):
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        ok(cudart.cudaMemcpyAsync(array.ctypes.data, src, array.nbytes, kind, self.handle))
        ok(cudart.cudaStreamSynchronize(self.handle))
        return array

    def drain(self):
        ok(cudart.cudaStreamSynchronize(self.handle))
