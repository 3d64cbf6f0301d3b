"""Stream-ordered staging arena on top of cuda.bindings.runtime."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt

H2D = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice


def ck(result):
    err, *values = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(rt.cudaGetErrorName(err)[1])
    return values[0] if values else None


def pinned(nbytes):
    ptr = ck(rt.cudaMallocHost(nbytes))
    return np.frombuffer((ctypes.c_ubyte * nbytes).from_address(int(ptr)), dtype=np.uint8)


class Stream:
    def __init__(self):
        self.handle = ck(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self._event = ck(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))

    def after(self, other):
        ck(rt.cudaEventRecord(other._event, other.handle))
        ck(rt.cudaStreamWaitEvent(self.handle, other._event, 0))

    def sync(self):
        ck(rt.cudaStreamSynchronize(self.handle))


class Gatherer:
    """Collects host shards into one device table."""

    def __init__(self, shard_bytes, count):
        self.upload, self.place = Stream(), Stream()
        self.shard_bytes = shard_bytes
        self.table = ck(rt.cudaMalloc(shard_bytes * count))

    def add(self, index, host):
        tmp = ck(rt.cudaMallocAsync(self.shard_bytes, self.place.handle))
        self.upload.after(self.place)
        ck(rt.cudaMemcpyAsync(tmp, host.ctypes.data, self.shard_bytes, H2D, self.upload.handle))
        self.place.after(self.upload)
        dst = int(self.table) + index * self.shard_bytes
        ck(rt.cudaMemcpyAsync(dst, tmp, self.shard_bytes, D2D, self.place.handle))
        ck(rt.cudaFreeAsync(tmp, self.place.handle))

    def finish(self):
        self.place.sync()
        return self.table


def main(count=16, shard=1 << 24):
    ck(rt.cudaSetDevice(0))
    shards = [pinned(shard) for _ in range(count)]
    for i, s in enumerate(shards):
        s.fill(i)
    g = Gatherer(shard, count)
    for i, s in enumerate(shards):
        g.add(i, s)
    table = g.finish()
    back = np.empty(shard * count, np.uint8)
    ck(rt.cudaMemcpy(back.ctypes.data, table, back.nbytes, rt.cudaMemcpyKind.cudaMemcpyDeviceToHost))
    print(back[::shard])


if __name__ == "__main__":
    main()
