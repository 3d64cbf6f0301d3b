"""Chunked upload of a large table through a few page-locked blocks."""
import numpy as np
import torch


class StagingBlock:
    """A pinned block bound to one stream."""

    def __init__(self, nbytes):
        self.data = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        self.stream = torch.cuda.Stream()

    def begin(self):
        self.stream.synchronize()
        return Cursor(self)


class Cursor:
    def __init__(self, block):
        self.block = block
        self.offset = 0

    def fits(self, nbytes):
        return self.offset + nbytes <= self.block.data.numel()

    def push(self, src, dst):
        n = src.nbytes
        view = self.block.data[self.offset:self.offset + n]
        view.numpy()[...] = np.ascontiguousarray(src).view(np.uint8).reshape(-1)
        with torch.cuda.stream(self.block.stream):
            dst.view(-1).view(torch.uint8).copy_(view, non_blocking=True)
        self.offset += (n + 63) // 64 * 64


class TableLoader:
    def __init__(self, block_bytes=8 << 20, blocks=3):
        self.blocks = [StagingBlock(block_bytes) for _ in range(blocks)]
        self.turn = 0
        self.cursor = None

    def _rotate(self):
        block = self.blocks[self.turn % len(self.blocks)]
        self.turn += 1
        self.cursor = block.begin()

    def load(self, table, dst, rows):
        ready = torch.cuda.current_stream().record_event()
        for block in self.blocks:
            block.stream.wait_event(ready)
        for lo in range(0, len(table), rows):
            src = table[lo:lo + rows]
            if self.cursor is None or not self.cursor.fits(src.nbytes):
                self._rotate()
            self.cursor.push(src, dst[lo:lo + len(src)])
        for block in self.blocks:
            torch.cuda.current_stream().wait_stream(block.stream)
        return dst


def checksum(t):
    w = torch.arange(t.shape[1], device=t.device, dtype=torch.float64) + 1
    return float((t.double() * w).sum())


def main():
    rng = np.random.default_rng(0)
    loader = TableLoader()
    dst = torch.zeros(200_000, 128, device="cuda")
    for _ in range(4):
        table = rng.standard_normal((200_000, 128), dtype=np.float32)
        loader.load(table, dst, rows=3000)
        want = float((table.astype(np.float64) * (np.arange(128) + 1)).sum())
        print(checksum(dst), want)
        dst.zero_()


if __name__ == "__main__":
    main()
