import ctypes
from collections import deque

import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else None


class StagingRing:
    """Pinned chunks; a chunk goes back to the writer once its copy has left."""

    def __init__(self, chunk, depth):
        self.chunk = chunk
        self.base = check(cudart.cudaHostAlloc(chunk * depth, cudart.cudaHostAllocDefault))
        self.idle = deque(range(depth))
        self.busy = deque()
        self.events = [check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
                       for _ in range(depth)]

    def _view(self, i):
        raw = (ctypes.c_ubyte * self.chunk).from_address(self.base + i * self.chunk)
        return np.frombuffer(raw, np.uint8)

    def acquire(self):
        while self.busy and cudart.cudaEventQuery(self.events[self.busy[0]])[0] == \
                cudart.cudaError_t.cudaSuccess:
            self.idle.append(self.busy.popleft())
        if not self.idle:
            oldest = self.busy.popleft()
            check(cudart.cudaEventSynchronize(self.events[oldest]))
            self.idle.append(oldest)
        i = self.idle.popleft()
        return i, self._view(i)

    def send(self, i, dst, nbytes, stream):
        check(cudart.cudaMemcpyAsync(dst, self.base + i * self.chunk, nbytes,
                                     cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, stream))
        check(cudart.cudaEventRecord(self.events[i], stream))
        self.busy.append(i)

    def close(self):
        while self.busy:
            check(cudart.cudaEventSynchronize(self.events[self.busy.popleft()]))
        check(cudart.cudaFreeHost(self.base))


def upload_file(path, ring, stream):
    blob = np.fromfile(path, np.uint8)
    ptr = check(cudart.cudaMalloc(blob.nbytes))
    for off in range(0, blob.nbytes, ring.chunk):
        part = blob[off:off + ring.chunk]
        i, view = ring.acquire()
        view[:part.nbytes] = part
        ring.send(i, ptr + off, part.nbytes, stream)
    back = np.empty_like(blob)
    check(cudart.cudaMemcpyAsync(back.ctypes.data, ptr, blob.nbytes,
                                 cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, stream))
    check(cudart.cudaStreamSynchronize(stream))
    check(cudart.cudaFree(ptr))
    return np.array_equal(blob, back)


if __name__ == "__main__":
    s = check(cudart.cudaStreamCreate())
    ring = StagingRing(1 << 16, 4)
    try:
        print(upload_file(__file__, ring, s))
    finally:
        ring.close()
