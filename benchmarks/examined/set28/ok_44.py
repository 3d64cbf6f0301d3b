"""cudaMallocAsync back end with record_stream semantics for buffers that cross streams."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else None


def make_stream():
    return check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))


def make_event():
    return check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))


class PinnedArray:
    def __init__(self, shape, dtype):
        self.nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.ptr = int(check(cudart.cudaMallocHost(self.nbytes)))
        raw = (ctypes.c_ubyte * self.nbytes).from_address(self.ptr)
        self.array = np.frombuffer(raw, dtype=dtype).reshape(shape)


class Allocation:
    def __init__(self, ptr, nbytes, allocator):
        self.ptr = ptr
        self.nbytes = nbytes
        self.allocator = allocator
        self.events = {}

    def record_stream(self, stream):
        if int(stream) == int(self.allocator.stream):
            return
        event = self.events.get(int(stream))
        if event is None:
            event = self.events[int(stream)] = make_event()
        check(cudart.cudaEventRecord(event, stream))


class MallocAsyncAllocator:
    """All allocations and frees are ordered on one stream."""

    def __init__(self, stream):
        self.stream = stream

    def allocate(self, nbytes):
        return Allocation(int(check(cudart.cudaMallocAsync(nbytes, self.stream))), nbytes, self)

    def free(self, allocation):
        for event in allocation.events.values():
            check(cudart.cudaStreamWaitEvent(self.stream, event, 0))
            check(cudart.cudaEventDestroy(event))
        allocation.events = {}
        check(cudart.cudaFreeAsync(allocation.ptr, self.stream))
        allocation.ptr = 0


class ActivationStash:
    """Keeps copies of activations on the device, ships them to the host on its own stream."""

    def __init__(self, rows, width):
        self.compute = make_stream()
        self.offload = make_stream()
        self.allocator = MallocAsyncAllocator(self.compute)
        self.source = PinnedArray((rows, width), np.float32)
        self.host = []
        self.rows, self.width = rows, width
        self.base = self.allocator.allocate(self.source.nbytes)

    def load(self, values):
        check(cudart.cudaStreamSynchronize(self.compute))
        self.source.array[...] = values
        check(cudart.cudaMemcpyAsync(
            self.base.ptr, self.source.ptr, self.source.nbytes, H2D, self.compute))

    def save(self):
        copy = self.allocator.allocate(self.base.nbytes)
        check(cudart.cudaMemcpyAsync(copy.ptr, self.base.ptr, copy.nbytes, D2D, self.compute))
        ready = make_event()
        check(cudart.cudaEventRecord(ready, self.compute))
        check(cudart.cudaStreamWaitEvent(self.offload, ready, 0))
        check(cudart.cudaEventDestroy(ready))
        target = PinnedArray((self.rows, self.width), np.float32)
        check(cudart.cudaMemcpyAsync(target.ptr, copy.ptr, copy.nbytes, D2H, self.offload))
        copy.record_stream(self.offload)
        self.host.append(target)
        self.allocator.free(copy)

    def finish(self):
        check(cudart.cudaStreamSynchronize(self.offload))
        self.allocator.free(self.base)
        check(cudart.cudaStreamSynchronize(self.compute))
        return [target.array for target in self.host]


def main():
    check(cudart.cudaSetDevice(0))
    rng = np.random.default_rng(1)
    stash = ActivationStash(4096, 1024)
    expected = []
    for _ in range(6):
        values = rng.random((4096, 1024), dtype=np.float32)
        expected.append(values)
        stash.load(values)
        stash.save()
    for got, want in zip(stash.finish(), expected):
        np.testing.assert_array_equal(got, want)


if __name__ == "__main__":
    main()
