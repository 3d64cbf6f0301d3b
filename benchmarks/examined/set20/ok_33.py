"""Device-resident column buffers with an allocator that retains host staging."""
import cupy as cp
import numpy as np


class StagingPool:
    def __init__(self):
        self.idle = []
        self.busy = []

    def acquire(self, nbytes):
        still_busy = []
        for event, mem in self.busy:
            if event.done:
                self.idle.append(mem)
            else:
                still_busy.append((event, mem))
        self.busy = still_busy
        for k, mem in enumerate(self.idle):
            if mem.mem.size >= nbytes:
                return self.idle.pop(k)
        return cp.cuda.alloc_pinned_memory(nbytes)

    def retire(self, mem, stream):
        event = cp.cuda.Event(disable_timing=True)
        event.record(stream)
        self.busy.append((event, mem))
        return event


class DeviceBuffer:
    def __init__(self, allocator, ptr, count, dtype, ready):
        self.allocator = allocator
        self.ptr = ptr
        self.array = cp.ndarray((count,), dtype=dtype, memptr=cp.cuda.MemoryPointer(
            cp.cuda.UnownedMemory(ptr, count * np.dtype(dtype).itemsize, self), 0))
        self.ready = ready
        self.last_use = cp.cuda.Event(disable_timing=True)

    def use_on(self, stream):
        stream.wait_event(self.ready)
        return self.array

    def used_on(self, stream):
        self.last_use.record(stream)

    def free(self):
        self.allocator.deallocate(self)


class DeviceAllocator:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.staging = StagingPool()

    def from_host(self, values):
        ptr = cp.cuda.runtime.mallocAsync(values.nbytes, self.stream.ptr)
        mem = self.staging.acquire(values.nbytes)
        np.frombuffer(mem, dtype=values.dtype, count=values.size)[...] = values
        cp.cuda.runtime.memcpyAsync(ptr, mem.ptr, values.nbytes,
                                    cp.cuda.runtime.memcpyHostToDevice, self.stream.ptr)
        ready = self.staging.retire(mem, self.stream)
        return DeviceBuffer(self, ptr, values.size, values.dtype, ready)

    def deallocate(self, buf):
        self.stream.wait_event(buf.last_use)
        cp.cuda.runtime.freeAsync(buf.ptr, self.stream.ptr)
        buf.array = None


def filtered_sum(buf, threshold, stream):
    col = buf.use_on(stream)
    with stream:
        out = cp.where(col > threshold, col, 0.0).sum()
    buf.used_on(stream)
    return out


def main(nbatches=64, rows=1 << 18):
    rng = np.random.default_rng(0)
    alloc = DeviceAllocator()
    workers = [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
    partial = []
    for k in range(nbatches):
        buf = alloc.from_host(rng.random(rows))
        partial.append(filtered_sum(buf, 0.5, workers[k % len(workers)]))
        buf.free()
    for w in workers:
        w.synchronize()
    alloc.stream.synchronize()
    return sum(float(p) for p in partial)


if __name__ == "__main__":
    print(main())
