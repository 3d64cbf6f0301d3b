"""Loads byte chunks of a columnar file into one device column through page-locked slices."""
import cupy as cp
import numpy as np


def pinned_bytes(nbytes):
    mem = cp.cuda.alloc_pinned_memory(nbytes)
    return np.frombuffer(mem, dtype=np.uint8, count=nbytes)


class ColumnReader:
    def __init__(self, path, chunk_bytes=4 << 20):
        self.path = path
        self.chunk_bytes = chunk_bytes
        self.stream = cp.cuda.Stream(non_blocking=True)

    def _chunks(self):
        with open(self.path, "rb") as f:
            while True:
                data = f.read(self.chunk_bytes)
                if not data:
                    return
                yield data

    def _upload(self, data, column, offset):
        n = len(data)
        stage = pinned_bytes(n)
        stage[:] = np.frombuffer(data, dtype=np.uint8)
        column[offset:offset + n].set(stage, stream=self.stream)
        return n

    def read_into(self, column):
        """column: preallocated uint8 device array, large enough for the whole file."""
        offset = 0
        for data in self._chunks():
            offset += self._upload(data, column, offset)
        return offset

    def read(self, nbytes, dtype=np.int32):
        with self.stream:
            column = cp.empty(nbytes, dtype=cp.uint8)
        used = self.read_into(column)
        with self.stream:
            values = column[: used - used % np.dtype(dtype).itemsize].view(dtype)
            total = values.sum(dtype=cp.int64)
        self.stream.synchronize()
        return values, int(total)


class TableReader:
    def __init__(self, paths):
        self.readers = {name: ColumnReader(p) for name, p in paths.items()}

    def load(self, sizes):
        table, totals = {}, {}
        for name, reader in self.readers.items():
            table[name], totals[name] = reader.read(sizes[name])
        return table, totals
