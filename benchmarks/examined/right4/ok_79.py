import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream as RmmStream


class Partition:
    def __init__(self, name, values):
        self.name, self.values = name, np.ascontiguousarray(values)


class LoadedPartition:
    """A device buffer on loan to other streams."""

    def __init__(self, part, owner):
        self.part, self.owner = part, owner
        raw = part.values.view(np.uint8).reshape(-1)
        self.buffer = rmm.DeviceBuffer.to_device(raw, stream=RmmStream(obj=owner))
        memory = cp.cuda.UnownedMemory(self.buffer.ptr, self.buffer.size, self.buffer)
        self.array = cp.ndarray(part.values.shape, part.values.dtype, cp.cuda.MemoryPointer(memory, 0))
        self.loaded = owner.record()
        self.readers = []

    def open(self, stream):
        stream.wait_event(self.loaded)
        self.readers.append(stream)
        return self.array

    def close(self):
        for stream in self.readers:
            self.owner.wait_event(stream.record())
        self.array = self.buffer = None


class GroupSum:
    def __init__(self, groups):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.sums = cp.zeros(groups, cp.float64)

    def add(self, loaded):
        data = loaded.open(self.stream)
        with self.stream:
            self.sums += cp.bincount(data[:, 0].astype(cp.int64), weights=data[:, 1], minlength=self.sums.size)
        del data
        loaded.close()

    def result(self):
        host = self.sums.get(stream=self.stream)
        self.stream.synchronize()
        return host


def main(parts=10, rows=1 << 18, groups=64):
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    load = cp.cuda.Stream(non_blocking=True)
    rng = np.random.default_rng(0)
    agg = GroupSum(groups)
    for i in range(parts):
        values = np.stack((rng.integers(0, groups, rows).astype(np.float64), rng.normal(size=rows)), axis=1)
        agg.add(LoadedPartition(Partition(f"part{i}", values), load))
    result = agg.result()
    load.synchronize()
    return result
