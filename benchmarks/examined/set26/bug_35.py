"""Arrow record batches moved into RMM buffers for a GPU pipeline."""
import numpy as np
import cupy as cp
import cupyx
import rmm
from rmm.pylibrmm.stream import Stream

H2D = cp.cuda.runtime.memcpyHostToDevice


class PinnedArena:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self._spare = []

    def allocate(self):
        if self._spare:
            return self._spare.pop()
        return cupyx.empty_pinned((self.nbytes,), dtype=np.uint8)

    def free(self, buf):
        self._spare.append(buf)


class RecordBatch:
    def __init__(self, arena, columns):
        self.arena = arena
        self.buffers = []
        for col in columns:
            buf = arena.allocate()
            buf[:col.nbytes] = col.view(np.uint8)
            self.buffers.append((buf, col.nbytes, col.dtype))

    def release(self):
        for buf, _, _ in self.buffers:
            self.arena.free(buf)
        self.buffers = []


class CudfFromVelox:
    def __init__(self):
        self.cp_stream = cp.cuda.Stream(non_blocking=True)
        self.stream = Stream(self.cp_stream)

    def from_arrow(self, batch):
        table = []
        for host, nbytes, dtype in batch.buffers:
            buf = rmm.DeviceBuffer(size=nbytes, stream=self.stream)
            cp.cuda.runtime.memcpyAsync(buf.ptr, host.ctypes.data, nbytes, H2D,
                                        self.cp_stream.ptr)
            table.append((buf, dtype))
        return table

    def to_cudf_table(self, batch):
        table = self.from_arrow(batch)
        batch.release()
        return table

    def column_sums(self, table):
        sums = []
        with self.cp_stream:
            for buf, dtype in table:
                col = cp.asarray(buf).view(dtype)
                sums.append(col.sum())
        return sums


def scan(arena, nbatches, rows):
    for k in range(nbatches):
        yield RecordBatch(arena, [np.full(rows, k, np.int64),
                                  np.full(rows, 2 * k, np.int64)])


def main(rows=1 << 23, nbatches=16):
    rmm.reinitialize(pool_allocator=True)
    source = CudfFromVelox()
    arena = PinnedArena(rows * 8)
    results, tables = [], []
    for batch in scan(arena, nbatches, rows):
        table = source.to_cudf_table(batch)
        results.append(source.column_sums(table))
        tables.append(table)
    source.cp_stream.synchronize()
    for k, (a, b) in enumerate(results):
        assert int(a) == k * rows and int(b) == 2 * k * rows


if __name__ == "__main__":
    main()
