"""Out-of-core column scan: KvikIO reads, CuPy filters, KvikIO writes."""
import os
from typing import List, Optional

import cupy as cp
import kvikio
import numpy as np

_FILTER = cp.ElementwiseKernel(
    "float32 x, float32 lo, float32 hi", "float32 y", "y = (x >= lo && x < hi) ? x : 0.f", "keep_range"
)


class Block:
    def __init__(self, rows: int):
        self.source = cp.zeros(rows, dtype=cp.float32)
        self.result = cp.zeros(rows, dtype=cp.float32)
        self.consumed = cp.cuda.Event(disable_timing=True)
        self.read: Optional[kvikio.cufile.IOFuture] = None
        self.write: Optional[kvikio.cufile.IOFuture] = None


class ColumnScan:
    def __init__(self, rows: int, depth: int = 2):
        self.rows = rows
        self.nbytes = rows * 4
        self.blocks: List[Block] = [Block(rows) for _ in range(depth)]
        self.stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()

    def _fetch(self, f: kvikio.CuFile, index: int) -> None:
        block = self.blocks[index % len(self.blocks)]
        block.consumed.synchronize()
        block.read = f.pread(block.source, size=self.nbytes, file_offset=index * self.nbytes)

    def _filter(self, index: int, lo: float, hi: float) -> None:
        block = self.blocks[index % len(self.blocks)]
        block.read.get()
        if block.write is not None:
            block.write.get()
            block.write = None
        with self.stream:
            _FILTER(block.source, np.float32(lo), np.float32(hi), block.result)
        block.consumed.record(self.stream)

    def _store(self, f: kvikio.CuFile, index: int) -> None:
        block = self.blocks[index % len(self.blocks)]
        block.consumed.synchronize()
        block.write = f.pwrite(block.result, size=self.nbytes, file_offset=index * self.nbytes)

    def run(self, src: str, dst: str, lo: float, hi: float) -> int:
        count = os.path.getsize(src) // self.nbytes
        ahead = len(self.blocks) - 1
        with kvikio.CuFile(src, "r") as fin, kvikio.CuFile(dst, "w") as fout:
            for index in range(min(ahead, count)):
                self._fetch(fin, index)
            for index in range(count):
                if index + ahead < count:
                    self._fetch(fin, index + ahead)
                self._filter(index, lo, hi)
                self._store(fout, index)
            for block in self.blocks:
                if block.write is not None:
                    block.write.get()
                    block.write = None
        return count


def main(rows: int = 1 << 24, blocks: int = 8) -> None:
    os.makedirs("/tmp/scan", exist_ok=True)
    src, dst = "/tmp/scan/in.bin", "/tmp/scan/out.bin"
    np.random.default_rng(0).random(rows * blocks, dtype=np.float32).tofile(src)
    scan = ColumnScan(rows)
    done = scan.run(src, dst, 0.25, 0.5)
    kept = np.count_nonzero(np.fromfile(dst, dtype=np.float32))
    print(done, kept)


if __name__ == "__main__":
    main()
