import numpy as np
from cuda.bindings import runtime as cudart

K = cudart.cudaMemcpyKind


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error: {err}")
    return rest[0] if rest else None


class AsyncBuffer:
    """Memory of the stream-ordered allocator; deallocate on a stream that follows every use."""

    def __init__(self, nbytes, stream):
        self.nbytes = nbytes
        self.ptr = int(check(cudart.cudaMallocAsync(nbytes, stream)))

    def deallocate(self, stream):
        ptr, self.ptr = self.ptr, 0
        check(cudart.cudaFreeAsync(ptr, stream))


class RowGather:
    """Packs rows of a device matrix and returns them on the host."""

    def __init__(self, matrix):
        self.rows, self.cols = matrix.shape
        self.pitch = matrix.strides[0]
        self.dtype = matrix.dtype
        self.pack_stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.out_stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.packed_event = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.matrix = AsyncBuffer(matrix.nbytes, self.pack_stream)
        matrix = np.ascontiguousarray(matrix)
        check(
            cudart.cudaMemcpyAsync(
                self.matrix.ptr, matrix.ctypes.data, matrix.nbytes, K.cudaMemcpyHostToDevice, self.pack_stream
            )
        )
        check(cudart.cudaStreamSynchronize(self.pack_stream))

    def _pack(self, ids):
        packed = AsyncBuffer(len(ids) * self.pitch, self.pack_stream)
        for i, row in enumerate(ids):
            src = self.matrix.ptr + int(row) * self.pitch
            check(
                cudart.cudaMemcpyAsync(
                    packed.ptr + i * self.pitch, src, self.pitch, K.cudaMemcpyDeviceToDevice, self.pack_stream
                )
            )
        check(cudart.cudaEventRecord(self.packed_event, self.pack_stream))
        return packed

    def gather(self, ids):
        packed = self._pack(ids)
        host = np.empty((len(ids), self.cols), dtype=self.dtype)
        check(cudart.cudaStreamWaitEvent(self.out_stream, self.packed_event, 0))
        check(
            cudart.cudaMemcpyAsync(
                host.ctypes.data, packed.ptr, host.nbytes, K.cudaMemcpyDeviceToHost, self.out_stream
            )
        )
        packed.deallocate(self.out_stream)
        check(cudart.cudaStreamSynchronize(self.out_stream))
        return host

    def close(self):
        self.matrix.deallocate(self.pack_stream)
        check(cudart.cudaStreamSynchronize(self.pack_stream))
