"""Chunked device-to-host copies over two copy queues."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt


def check(res):
    err, rest = res[0], res[1:]
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


class PinnedArray:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = check(rt.cudaMallocHost(nbytes))
        self.view = np.ctypeslib.as_array(
            ctypes.cast(self.ptr, ctypes.POINTER(ctypes.c_uint8)), (nbytes,))

    def free(self):
        check(rt.cudaFreeHost(self.ptr))


class StagedCopyEngine:
    def __init__(self, chunk_bytes=1 << 22):
        self.chunk_bytes = chunk_bytes
        flags = rt.cudaStreamNonBlocking
        self.queues = [check(rt.cudaStreamCreateWithFlags(flags)) for _ in range(2)]

    def copy_device_to_host(self, dst, src, nbytes, wait_for=None):
        kind = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
        offset = 0
        index = 0
        while offset < nbytes:
            size = min(self.chunk_bytes, nbytes - offset)
            queue = self.queues[index % 2]
            if index == 0 and wait_for is not None:
                check(rt.cudaStreamWaitEvent(queue, wait_for, 0))
            check(rt.cudaMemcpyAsync(dst + offset, src + offset, size, kind, queue))
            offset += size
            index += 1
        for queue in self.queues:
            check(rt.cudaStreamSynchronize(queue))


class Producer:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.done = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.ptr = check(rt.cudaMalloc(nbytes))

    def produce(self, value):
        check(rt.cudaMemsetAsync(self.ptr, value, self.nbytes, self.stream))
        check(rt.cudaEventRecord(self.done, self.stream))
        return self.done


def main():
    nbytes = 64 << 20
    producer = Producer(nbytes)
    host = PinnedArray(nbytes)
    engine = StagedCopyEngine()
    total = 0
    for value in range(1, 9):
        event = producer.produce(value)
        engine.copy_device_to_host(host.ptr, producer.ptr, nbytes, wait_for=event)
        total += int(host.view.sum(dtype=np.int64))
    print(total)
    host.free()


if __name__ == "__main__":
    main()
