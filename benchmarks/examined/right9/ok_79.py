import ctypes

import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1])
    return rest[0] if len(rest) == 1 else tuple(rest)


class Stream:
    def __init__(self):
        self.handle = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))

    def record(self):
        event = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        check(cudart.cudaEventRecord(event, self.handle))
        return event

    def wait(self, event):
        check(cudart.cudaStreamWaitEvent(self.handle, event, 0))

    def sync(self):
        check(cudart.cudaStreamSynchronize(self.handle))


class HostBuffer:
    def __init__(self, shape, dtype):
        self.nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.ptr = check(cudart.cudaMallocHost(self.nbytes))
        raw = (ctypes.c_char * self.nbytes).from_address(int(self.ptr))
        self.array = np.frombuffer(raw, dtype).reshape(shape)


class Shuttle:
    """Blocks are allocated where they are filled and freed where they end."""

    def __init__(self, shape):
        self.source = HostBuffer(shape, np.float32)
        self.target = HostBuffer(shape, np.float32)
        self.fill = Stream()
        self.drain = Stream()
        self.nbytes = self.source.nbytes

    def send(self, values):
        self.source.array[...] = values
        block = check(cudart.cudaMallocAsync(self.nbytes, self.fill.handle))
        kind = cudart.cudaMemcpyKind
        check(cudart.cudaMemcpyAsync(block, self.source.ptr, self.nbytes, kind.cudaMemcpyHostToDevice, self.fill.handle))
        filled = self.fill.record()
        self.drain.wait(filled)
        check(cudart.cudaMemcpyAsync(self.target.ptr, block, self.nbytes, kind.cudaMemcpyDeviceToHost, self.drain.handle))
        check(cudart.cudaFreeAsync(block, self.drain.handle))
        self.drain.sync()
        check(cudart.cudaEventDestroy(filled))
        return float(self.target.array.sum())

    def close(self):
        self.fill.sync()
        self.drain.sync()
        for buf in (self.source, self.target):
            check(cudart.cudaFreeHost(buf.ptr))
        for stream in (self.fill, self.drain):
            check(cudart.cudaStreamDestroy(stream.handle))


def main():
    check(cudart.cudaSetDevice(0))
    shuttle = Shuttle((1024, 1024))
    try:
        for i in range(20):
            print(i, shuttle.send(np.full((1024, 1024), i, np.float32)))
    finally:
        shuttle.close()


if __name__ == "__main__":
    main()
