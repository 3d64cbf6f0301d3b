import numpy as np
from cuda.bindings import runtime as cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorName(err)[1].decode())
    return values[0] if values else None


class PooledBuffer:
    """Stream-ordered allocation that belongs to one stream."""

    def __init__(self, nbytes: int, stream):
        self.nbytes = nbytes
        self.stream = stream
        self.ptr = check(cudart.cudaMallocAsync(nbytes, stream))

    def release(self, after=None) -> None:
        if after is not None:
            check(cudart.cudaStreamWaitEvent(self.stream, after, 0))
        check(cudart.cudaFreeAsync(self.ptr, self.stream))
        self.ptr = None


class Assembler:
    """Gathers chunks from the host into one device array."""

    def __init__(self, total_bytes: int):
        flags = cudart.cudaStreamNonBlocking
        self.load = check(cudart.cudaStreamCreateWithFlags(flags))
        self.merge = check(cudart.cudaStreamCreateWithFlags(flags))
        self.loaded = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.merged = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.target = PooledBuffer(total_bytes, self.merge)

    def append(self, chunk: np.ndarray, offset: int) -> None:
        buffer = PooledBuffer(chunk.nbytes, self.load)
        check(cudart.cudaMemcpyAsync(buffer.ptr, chunk.ctypes.data, chunk.nbytes, H2D, self.load))
        check(cudart.cudaEventRecord(self.loaded, self.load))
        check(cudart.cudaStreamWaitEvent(self.merge, self.loaded, 0))
        check(cudart.cudaMemcpyAsync(int(self.target.ptr) + offset, buffer.ptr, chunk.nbytes,
                                     D2D, self.merge))
        check(cudart.cudaEventRecord(self.merged, self.merge))
        buffer.release(after=self.merged)

    def fetch(self, dtype, count: int) -> np.ndarray:
        out = np.empty(count, dtype=dtype)
        check(cudart.cudaMemcpyAsync(out.ctypes.data, self.target.ptr, out.nbytes, D2H, self.merge))
        check(cudart.cudaStreamSynchronize(self.merge))
        return out

    def close(self) -> None:
        self.target.release()
        for stream in (self.merge, self.load):
            check(cudart.cudaStreamSynchronize(stream))
            check(cudart.cudaStreamDestroy(stream))
        for event in (self.loaded, self.merged):
            check(cudart.cudaEventDestroy(event))


def main():
    source = np.arange(1 << 22, dtype=np.float32)
    assembler = Assembler(source.nbytes)
    try:
        offset = 0
        for chunk in np.array_split(source, 13):
            assembler.append(chunk, offset)
            offset += chunk.nbytes
        result = assembler.fetch(np.float32, source.size)
    finally:
        assembler.close()
    assert np.array_equal(result, source)


if __name__ == "__main__":
    main()
