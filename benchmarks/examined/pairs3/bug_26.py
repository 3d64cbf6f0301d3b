"""Append tick files to a device column store, staging memory from cudaMallocAsync."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt

KIND = rt.cudaMemcpyKind


def call(result):
    err, *values = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(rt.cudaGetErrorString(err)[1])
    return values[0] if values else None


def page_locked(nbytes):
    ptr = call(rt.cudaMallocHost(nbytes))
    return np.frombuffer((ctypes.c_ubyte * nbytes).from_address(int(ptr)), dtype=np.uint8)


class Queue:
    def __init__(self):
        self.stream = call(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.marker = call(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))

    def follow(self, leader):
        call(rt.cudaEventRecord(leader.marker, leader.stream))
        call(rt.cudaStreamWaitEvent(self.stream, leader.marker, 0))


class ColumnStore:
    def __init__(self, chunk, capacity):
        self.chunk = chunk
        self.feed, self.commit = Queue(), Queue()
        self.base = call(rt.cudaMalloc(chunk * capacity))
        self.used = 0

    def append(self, host):
        stage = call(rt.cudaMallocAsync(self.chunk, self.commit.stream))
        call(rt.cudaMemcpyAsync(stage, host.ctypes.data, self.chunk,
                                KIND.cudaMemcpyHostToDevice, self.feed.stream))
        self.commit.follow(self.feed)
        call(rt.cudaMemcpyAsync(int(self.base) + self.used * self.chunk, stage, self.chunk,
                                KIND.cudaMemcpyDeviceToDevice, self.commit.stream))
        call(rt.cudaFreeAsync(stage, self.commit.stream))
        self.used += 1

    def seal(self):
        call(rt.cudaStreamSynchronize(self.commit.stream))


def main(chunk=1 << 25, files=24):
    call(rt.cudaSetDevice(0))
    store = ColumnStore(chunk, files)
    chunks = []
    for k in range(files):
        buf = page_locked(chunk)
        buf[:] = np.fromfile(f"ticks_{k:03d}.bin", dtype=np.uint8, count=chunk)
        chunks.append(buf)
    for buf in chunks:
        store.append(buf)
    store.seal()
    out = np.empty(chunk, np.uint8)
    call(rt.cudaMemcpy(out.ctypes.data, store.base, chunk, KIND.cudaMemcpyDeviceToHost))
    print(out[:16])


if __name__ == "__main__":
    main()
