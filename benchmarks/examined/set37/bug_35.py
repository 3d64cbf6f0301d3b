"""Pause and resume of device allocations with a backup file per allocation."""
import ctypes
import os
import tempfile

import numpy as np
from cuda.bindings import runtime as rt


def _check(result):
    err, *values = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(f"runtime call failed: {err}")
    return values[0] if values else None


class StagingBuffer:
    """Page-locked bytes between the file and the device."""

    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = int(_check(rt.cudaMallocHost(nbytes)))
        raw = (ctypes.c_ubyte * nbytes).from_address(self.ptr)
        self.view = memoryview(raw).cast("B")

    def close(self):
        self.view.release()
        _check(rt.cudaFreeHost(self.ptr))


class Allocation:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = int(_check(rt.cudaMalloc(nbytes)))
        self.path = None

    @property
    def paused(self):
        return self.ptr == 0


class MemorySaver:
    def __init__(self, directory, chunk_bytes=64 << 20):
        self.directory = directory
        self.staging = StagingBuffer(chunk_bytes)
        self.stream = _check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.allocations = {}

    def allocate(self, name, nbytes):
        self.allocations[name] = Allocation(nbytes)
        return self.allocations[name]

    def _chunks(self, nbytes):
        for offset in range(0, nbytes, self.staging.nbytes):
            yield offset, min(self.staging.nbytes, nbytes - offset)

    def _backup(self, name, allocation):
        allocation.path = os.path.join(self.directory, f"{name}.bin")
        kind = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
        with open(allocation.path, "wb") as file:
            for offset, size in self._chunks(allocation.nbytes):
                source = allocation.ptr + offset
                _check(rt.cudaMemcpyAsync(self.staging.ptr, source, size, kind, self.stream))
                _check(rt.cudaStreamSynchronize(self.stream))
                file.write(self.staging.view[:size])

    def _restore(self, allocation):
        kind = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
        with open(allocation.path, "rb", buffering=0) as file:
            for offset, size in self._chunks(allocation.nbytes):
                file.readinto(self.staging.view[:size])
                target = allocation.ptr + offset
                _check(rt.cudaMemcpyAsync(target, self.staging.ptr, size, kind, self.stream))
        os.unlink(allocation.path)
        allocation.path = None

    def pause(self):
        _check(rt.cudaDeviceSynchronize())
        for name, allocation in self.allocations.items():
            if not allocation.paused:
                self._backup(name, allocation)
                _check(rt.cudaFree(allocation.ptr))
                allocation.ptr = 0

    def resume(self):
        paused = [a for a in self.allocations.values() if a.paused]
        for allocation in paused:
            allocation.ptr = int(_check(rt.cudaMalloc(allocation.nbytes)))
        for allocation in paused:
            self._restore(allocation)
        _check(rt.cudaStreamSynchronize(self.stream))


def fill(allocation, value):
    _check(rt.cudaMemset(allocation.ptr, value, allocation.nbytes))


def first_bytes(allocation, count=16):
    out = np.empty(count, np.uint8)
    kind = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
    _check(rt.cudaMemcpy(out.ctypes.data, allocation.ptr, count, kind))
    return out


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        saver = MemorySaver(folder)
        for i in range(4):
            fill(saver.allocate(f"weights_{i}", 512 << 20), i + 1)
        saver.pause()
        saver.resume()
        for name, allocation in saver.allocations.items():
            print(name, first_bytes(allocation))
        saver.staging.close()
