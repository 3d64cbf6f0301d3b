"""Out-of-core column statistics: blocks are read into device memory with KvikIO, ring of three."""
import cupy as cp
import kvikio

BLOCK = 1 << 22


class Slot:
    def __init__(self, dtype):
        self.buffer = cp.empty(BLOCK, dtype=dtype)
        self.futures = []
        self.count = 0
        self.consumed = cp.cuda.Event(disable_timing=True)


class BlockReader:
    def __init__(self, path, dtype, depth=3):
        self.file = kvikio.CuFile(path, "r")
        self.itemsize = cp.dtype(dtype).itemsize
        self.slots = [Slot(dtype) for _ in range(depth)]
        cp.cuda.Device().synchronize()

    def prefetch(self, slot, first, total):
        slot.consumed.synchronize()
        slot.count = min(BLOCK, total - first)
        half = slot.count // 2
        offset = first * self.itemsize
        slot.futures = [
            self.file.pread(slot.buffer[:half], file_offset=offset),
            self.file.pread(
                slot.buffer[half : slot.count], file_offset=offset + half * self.itemsize
            ),
        ]

    def wait(self, slot):
        for future in slot.futures:
            future.get()
        slot.futures = []
        return slot.buffer[: slot.count]

    def close(self):
        self.file.close()


class Statistics:
    def __init__(self, stream):
        self.stream = stream
        with stream:
            self.sum = cp.zeros((), dtype=cp.float64)
            self.square = cp.zeros((), dtype=cp.float64)
            self.low = cp.full((), cp.inf)
            self.high = cp.full((), -cp.inf)

    def add(self, block):
        with self.stream:
            self.sum += block.sum(dtype=cp.float64)
            self.square += cp.square(block, dtype=cp.float64).sum()
            self.low = cp.minimum(self.low, block.min())
            self.high = cp.maximum(self.high, block.max())

    def result(self, n):
        with self.stream:
            mean = self.sum / n
            var = self.square / n - mean * mean
            return tuple(float(x) for x in (mean, var, self.low, self.high))


def column_statistics(path, total, dtype=cp.float32):
    stream = cp.cuda.Stream(non_blocking=True)
    reader = BlockReader(path, dtype)
    stats = Statistics(stream)
    starts = list(range(0, total, BLOCK))
    depth = len(reader.slots)
    for k in range(min(depth - 1, len(starts))):
        reader.prefetch(reader.slots[k], starts[k], total)
    for k in range(len(starts)):
        ahead = k + depth - 1
        if ahead < len(starts):
            reader.prefetch(reader.slots[ahead % depth], starts[ahead], total)
        slot = reader.slots[k % depth]
        stats.add(reader.wait(slot))
        slot.consumed.record(stream)
    result = stats.result(total)
    reader.close()
    return result


if __name__ == "__main__":
    print(column_statistics("/scratch/column.f32", 300_000_000))
