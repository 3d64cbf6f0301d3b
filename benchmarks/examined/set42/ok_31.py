"""Chunked checksum of a file: KvikIO fills a slot, CuPy reduces the other one."""
import os
import sys
import tempfile

import cupy as cp
import kvikio
import numpy as np


class ChunkReader:
    def __init__(self, path: str, chunk: int):
        self.chunk = chunk
        self.length = os.path.getsize(path)
        self.file = kvikio.CuFile(path, "r")
        self.stream = cp.cuda.Stream(non_blocking=True)

    def __len__(self) -> int:
        return -(-self.length // self.chunk)

    def start(self, index: int, out: cp.ndarray, after: cp.cuda.Event):
        offset = index * self.chunk
        size = min(self.chunk, self.length - offset)
        self.stream.wait_event(after)
        return self.file.raw_read_async(
            out, self.stream.ptr, size=size, file_offset=offset
        )

    def close(self):
        self.file.close()


class Checksum:
    def __init__(self, reader: ChunkReader):
        self.reader = reader
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.slots = [cp.empty(reader.chunk, dtype=cp.uint8) for _ in range(2)]
        self.reduced = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        with self.compute:
            self.total = cp.zeros((), dtype=cp.uint64)

    def _reduce(self, slot: int, nbytes: int):
        with self.compute:
            self.total += self.slots[slot][:nbytes].sum(dtype=cp.uint64)
            self.reduced[slot].record(self.compute)

    def run(self) -> int:
        reader = self.reader
        for event in self.reduced:
            event.record(self.compute)
        future = reader.start(0, self.slots[0], self.reduced[0])
        for i in range(len(reader)):
            slot = i % 2
            nbytes = future.check_bytes_done()
            if i + 1 < len(reader):
                other = (i + 1) % 2
                future = reader.start(i + 1, self.slots[other], self.reduced[other])
            self._reduce(slot, nbytes)
        with self.compute:
            return int(self.total)


def make_file(path: str, nbytes: int) -> int:
    data = np.random.default_rng(0).integers(0, 256, nbytes, dtype=np.uint8)
    data.tofile(path)
    return int(data.sum(dtype=np.uint64))


def main(nbytes: int = (64 << 20) + 123):
    with tempfile.TemporaryDirectory() as root:
        path = os.path.join(root, "blob.bin")
        expected = make_file(path, nbytes)
        reader = ChunkReader(path, chunk=8 << 20)
        actual = Checksum(reader).run()
        reader.close()
    if actual != expected:
        sys.exit(f"{actual} != {expected}")


if __name__ == "__main__":
    main()
