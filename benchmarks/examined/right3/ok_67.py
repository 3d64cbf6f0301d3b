"""Byte histogram of a file read by KvikIO into two device buffers."""
import os
import sys

import cupy as cp
import kvikio


class ChunkReader:
    def __init__(self, path: str, chunk: int):
        self.path = path
        self.chunk = chunk
        self.size = os.path.getsize(path)
        self.buffers = [cp.empty(chunk, dtype=cp.uint8) for _ in range(2)]
        self.released: list[cp.cuda.Event | None] = [None, None]

    def _start(self, f: kvikio.CuFile, index: int):
        slot = index % 2
        event = self.released[slot]
        if event is not None:
            event.synchronize()
        offset = index * self.chunk
        return f.pread(self.buffers[slot], min(self.chunk, self.size - offset), file_offset=offset)

    def __iter__(self):
        total = -(-self.size // self.chunk)
        if not total:
            return
        with kvikio.CuFile(self.path, "r") as f:
            pending = self._start(f, 0)
            for index in range(total):
                nbytes = pending.get()
                pending = self._start(f, index + 1) if index + 1 < total else None
                yield index, self.buffers[index % 2][:nbytes]

    def release(self, index: int, stream: cp.cuda.Stream) -> None:
        self.released[index % 2] = stream.record()


def histogram(path: str, chunk: int = 16 << 20) -> list[int]:
    stream = cp.cuda.Stream(non_blocking=True)
    reader = ChunkReader(path, chunk)
    with stream:
        counts = cp.zeros(256, dtype=cp.int64)
        for index, data in reader:
            counts += cp.bincount(data, minlength=256)
            reader.release(index, stream)
        return counts.tolist()


if __name__ == "__main__":
    print(histogram(sys.argv[1])[:16])
