"""Page-locked staging buffers whose host accessors wait for pending copies."""
import ctypes

import numpy as np
from cuda import cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1].decode())
    return rest[0] if rest else None


class PinnedBuffer:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = check(cudart.cudaMallocHost(nbytes))
        raw = (ctypes.c_uint8 * nbytes).from_address(self.ptr)
        self._view = np.frombuffer(raw, dtype=np.uint8)
        self._event = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self._pending = False

    def mark(self, stream):
        check(cudart.cudaEventRecord(self._event, stream))
        self._pending = True

    def wait(self):
        if self._pending:
            check(cudart.cudaEventSynchronize(self._event))
            self._pending = False

    def write(self, array):
        self.wait()
        flat = np.ascontiguousarray(array).view(np.uint8).ravel()
        self._view[:flat.size] = flat

    def read(self, dtype, shape):
        self.wait()
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self._view[:count].copy().view(dtype).reshape(shape)

    def free(self):
        self.wait()
        check(cudart.cudaEventDestroy(self._event))
        check(cudart.cudaFreeHost(self.ptr))


class DeviceVector:
    def __init__(self, shape, dtype, stream):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.nbytes = int(np.prod(shape)) * self.dtype.itemsize
        self.stream = stream
        self.ptr = check(cudart.cudaMalloc(self.nbytes))

    def set(self, pinned):
        check(cudart.cudaMemcpyAsync(self.ptr, pinned.ptr, self.nbytes,
              cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, self.stream))
        pinned.mark(self.stream)

    def get(self, pinned):
        check(cudart.cudaMemcpyAsync(pinned.ptr, self.ptr, self.nbytes,
              cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, self.stream))
        pinned.mark(self.stream)


def main():
    stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
    vec = DeviceVector((1 << 20,), np.float32, stream)
    stage_in, stage_out = PinnedBuffer(vec.nbytes), PinnedBuffer(vec.nbytes)
    for step in range(32):
        stage_in.write(np.full(vec.shape, step, dtype=np.float32))
        vec.set(stage_in)
        vec.get(stage_out)
        result = stage_out.read(np.float32, vec.shape)
        assert result[0] == step
    stage_in.free()
    stage_out.free()


if __name__ == "__main__":
    main()
