"""File reads into device memory through pinned bounce buffers and an event pool."""
import os
import tempfile
import threading

import cupy as cp
import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    if result[0] != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) > 1 else None


class EventPool:
    def __init__(self):
        self._events = []
        self._lock = threading.Lock()

    def get(self):
        with self._lock:
            if self._events:
                return self._events.pop()
        return check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))

    def put(self, event):
        with self._lock:
            self._events.append(event)


class BounceBuffers:
    def __init__(self, nbytes, count, events):
        self.nbytes = nbytes
        self.events = events
        self.free = [check(cudart.cudaHostAlloc(nbytes, 0)) for _ in range(count)]
        self.busy = []

    def acquire(self):
        pending = []
        for event, ptr in self.busy:
            status, = cudart.cudaEventQuery(event)
            if status == cudart.cudaError_t.cudaSuccess:
                self.events.put(event)
                self.free.append(ptr)
            else:
                pending.append((event, ptr))
        self.busy = pending
        if not self.free:
            event, ptr = self.busy.pop(0)
            check(cudart.cudaEventSynchronize(event))
            self.events.put(event)
            self.free.append(ptr)
        return self.free.pop()

    def retire(self, ptr, stream):
        event = self.events.get()
        check(cudart.cudaEventRecord(event, stream))
        self.busy.append((event, ptr))

    def view(self, ptr, nbytes):
        import ctypes
        return np.frombuffer((ctypes.c_char * nbytes).from_address(ptr), dtype=np.uint8)


class RemoteFile:
    def __init__(self, path, chunk=1 << 20, bounce=3):
        self.fd = os.open(path, os.O_RDONLY)
        self.chunk = chunk
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.bounce = BounceBuffers(chunk, bounce, EventPool())

    def pread(self, dev, nbytes, file_offset, consumer):
        check(cudart.cudaEventRecord(self._edge(), consumer))
        check(cudart.cudaStreamWaitEvent(self.stream, self.edge, 0))
        done = 0
        while done < nbytes:
            size = min(self.chunk, nbytes - done)
            ptr = self.bounce.acquire()
            os.preadv(self.fd, [self.bounce.view(ptr, size).data], file_offset + done)
            check(cudart.cudaMemcpyAsync(dev + done, ptr, size,
                                         cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, self.stream))
            self.bounce.retire(ptr, self.stream)
            done += size
        check(cudart.cudaEventRecord(self.edge, self.stream))
        check(cudart.cudaStreamWaitEvent(consumer, self.edge, 0))

    def _edge(self):
        if not hasattr(self, "edge"):
            self.edge = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        return self.edge


def main(nbytes=24 << 20, parts=4):
    with tempfile.NamedTemporaryFile() as f:
        f.write(np.random.default_rng(0).integers(0, 256, nbytes, dtype=np.uint8).tobytes())
        f.flush()
        remote = RemoteFile(f.name)
        consumer = cp.cuda.Stream(non_blocking=True)
        part = nbytes // parts
        with consumer:
            target = cp.empty(part, dtype=cp.uint8)
            total = cp.zeros((), dtype=cp.uint64)
            for k in range(parts):
                remote.pread(target.data.ptr, part, k * part, consumer.ptr)
                total += target.sum(dtype=cp.uint64)
            return int(total)


if __name__ == "__main__":
    print(main())
