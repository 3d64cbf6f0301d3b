from __future__ import annotations

import os
import tempfile

import cupy as cp
import kvikio
import numpy as np

SHARD = 1 << 20


class ShardReader:
    """Reads float32 shards into two device buffers ahead of their use."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.count = os.path.getsize(path) // (4 * SHARD)
        self.io = cp.cuda.Stream(non_blocking=True)
        self.compute = cp.cuda.Stream(non_blocking=True)
        with self.io:
            self.buffers = [cp.empty(SHARD, dtype=cp.float32) for _ in range(2)]
        self.consumed = [None, None]

    def _start(self, file: kvikio.CuFile, index: int):
        slot = index % 2
        if self.consumed[slot] is not None:
            self.consumed[slot].synchronize()
        return file.raw_read_async(
            self.buffers[slot], self.io.ptr, size=4 * SHARD, file_offset=4 * SHARD * index
        )

    def __iter__(self):
        with kvikio.CuFile(self.path, "r") as file:
            future = self._start(file, 0) if self.count else None
            for index in range(self.count):
                if future.check_bytes_done() != 4 * SHARD:
                    raise EOFError(f"short read in shard {index}")
                if index + 1 < self.count:
                    future = self._start(file, index + 1)
                slot = index % 2
                with self.compute:
                    yield self.buffers[slot]
                self.consumed[slot] = self.compute.record()
            self.compute.synchronize()


def main() -> None:
    with tempfile.NamedTemporaryFile(suffix=".f32", delete=False) as f:
        np.arange(6 * SHARD, dtype=np.float32).tofile(f)
    reader = ShardReader(f.name)
    with reader.compute:
        total = cp.zeros((), dtype=cp.float64)
        peak = cp.zeros((), dtype=cp.float32)
    for shard in reader:
        total += shard.sum(dtype=cp.float64)
        cp.maximum(peak, shard.max(), out=peak)
    print(float(total), float(peak))
    os.unlink(f.name)


if __name__ == "__main__":
    main()
