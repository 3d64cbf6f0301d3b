"""Stream-ordered device buffers that are handed from an upload to a compute stream."""
import ctypes

import numpy as np
from cuda import cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if rest else None


class StreamBuffer:
    """Memory whose deallocation is ordered on ``stream``."""

    def __init__(self, nbytes, stream):
        self.nbytes = nbytes
        self.stream = stream
        self.ptr = check(cudart.cudaMallocAsync(nbytes, stream))
        self._event = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))

    def hand_to(self, other):
        check(cudart.cudaEventRecord(self._event, self.stream))
        check(cudart.cudaStreamWaitEvent(other, self._event, 0))

    def used_on(self, other):
        check(cudart.cudaEventRecord(self._event, other))
        check(cudart.cudaStreamWaitEvent(self.stream, self._event, 0))

    def release(self):
        check(cudart.cudaFreeAsync(self.ptr, self.stream))
        check(cudart.cudaEventDestroy(self._event))


class ColumnGather:
    def __init__(self, rows, n_columns):
        self.nbytes = rows * 4
        self.upload = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.compute = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.table = check(cudart.cudaMalloc(self.nbytes * n_columns))
        self.host = []
        for _ in range(n_columns):
            ptr = check(cudart.cudaMallocHost(self.nbytes))
            raw = (ctypes.c_float * rows).from_address(ptr)
            self.host.append((ptr, np.frombuffer(raw, dtype=np.float32)))

    def load(self, columns):
        for i, column in enumerate(columns):
            ptr, view = self.host[i]
            view[:] = column
            staging = StreamBuffer(self.nbytes, self.upload)
            check(cudart.cudaMemcpyAsync(staging.ptr, ptr, self.nbytes, H2D, self.upload))
            staging.hand_to(self.compute)
            check(cudart.cudaMemcpyAsync(self.table + i * self.nbytes, staging.ptr, self.nbytes,
                                         D2D, self.compute))
            staging.used_on(self.compute)
            staging.release()
        check(cudart.cudaStreamSynchronize(self.compute))

    def column(self, i):
        out = np.empty(self.nbytes // 4, dtype=np.float32)
        check(cudart.cudaMemcpyAsync(out.ctypes.data, self.table + i * self.nbytes, self.nbytes,
                                     D2H, self.compute))
        check(cudart.cudaStreamSynchronize(self.compute))
        return out


def main():
    gather = ColumnGather(1 << 20, 8)
    for step in range(10):
        gather.load([np.full(1 << 20, step * 8 + i, dtype=np.float32) for i in range(8)])
        print(gather.column(3)[0])


if __name__ == "__main__":
    main()
