"""Columnar scan: packed column groups in RMM buffers are materialised on a work stream."""
import numpy as np
import cupy as cp
import cupyx
import rmm
from rmm.pylibrmm.stream import Stream as RmmStream

_unpack = cp.ElementwiseKernel(
    "raw int32 packed, int64 base, float64 scale",
    "float64 out",
    "out = (packed[base + i] & 0xffff) * scale",
    "unpack_column",
)


def as_cupy(buf, dtype, count):
    mem = cp.cuda.UnownedMemory(buf.ptr, buf.size, buf)
    return cp.ndarray((count,), dtype=dtype, memptr=cp.cuda.MemoryPointer(mem, 0))


class PackedGroup:
    """All columns of one row group, in a single allocation made on the packing stream."""

    def __init__(self, rows, columns, owner):
        self.rows, self.columns = rows, columns
        self.buffer = rmm.DeviceBuffer(size=rows * columns * 4, stream=owner.rmm_pack)
        self.packed_at = cp.cuda.Event(disable_timing=True)

    def view(self):
        return as_cupy(self.buffer, np.int32, self.rows * self.columns)


class GroupReader:
    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.pack = cp.cuda.Stream(non_blocking=True)
        self.rmm_pack = RmmStream(self.pack)
        self.staging = [cupyx.empty_pinned((rows * columns,), np.int32) for _ in range(2)]
        self.sent = [cp.cuda.Event(disable_timing=True) for _ in self.staging]
        self.turn = 0

    def read(self, source):
        slot = self.turn % 2
        self.turn += 1
        self.sent[slot].synchronize()
        self.staging[slot][:] = source
        group = PackedGroup(self.rows, self.columns, self)
        group.view().set(self.staging[slot], stream=self.pack)
        self.sent[slot].record(self.pack)
        group.packed_at.record(self.pack)
        return group


class Materializer:
    def __init__(self, rows, columns):
        self.work = cp.cuda.Stream(non_blocking=True)
        with self.work:
            self.columns = [cp.zeros(rows, dtype=cp.float64) for _ in range(columns)]
            self.sums = cp.zeros(columns, dtype=cp.float64)

    def consume(self, group):
        self.work.wait_event(group.packed_at)
        packed = group.view()
        with self.work:
            for c, out in enumerate(self.columns):
                _unpack(packed, c * group.rows, 1.0 / (c + 1), out)
                self.sums[c:c + 1] += out.sum()

    def result(self):
        with self.work:
            host = self.sums.get(stream=self.work, blocking=True)
        return host


def scan(groups=64, rows=1 << 20, columns=8):
    rmm.mr.set_current_device_resource(
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=1 << 30)
    )
    reader = GroupReader(rows, columns)
    mat = Materializer(rows, columns)
    rng = np.random.default_rng(0)
    data = rng.integers(0, 1 << 16, rows * columns, dtype=np.int32)
    for g in range(groups):
        group = reader.read(data + g)
        mat.consume(group)
        del group
    return mat.result()


if __name__ == "__main__":
    print(scan())
