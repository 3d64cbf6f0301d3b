"""Disk-backed cache: blocks are read into page-locked buffers and uploaded."""
import os
import tempfile

import numpy as np
import torch


class DiskBackend:
    def __init__(self, path, block_bytes, buffers=2):
        self.fd = os.open(path, os.O_RDONLY)
        self.block_bytes = block_bytes
        self.stream = torch.cuda.Stream()
        self.buffers = [torch.empty(block_bytes, dtype=torch.uint8, pin_memory=True) for _ in range(buffers)]
        self.pending = [None] * buffers

    def load(self, cache, block_ids):
        """Reads blocks into rows of cache; returns the marker of the last upload."""
        self.stream.wait_stream(torch.cuda.current_stream())
        event = None
        for n, block in enumerate(block_ids):
            k = n % len(self.buffers)
            if self.pending[k] is not None:
                self.pending[k].synchronize()
            os.preadv(self.fd, [self.buffers[k].numpy()], block * self.block_bytes)
            with torch.cuda.stream(self.stream):
                cache[block].copy_(self.buffers[k], non_blocking=True)
                event = self.stream.record_event()
            self.pending[k] = event
        return event

    def close(self):
        self.stream.synchronize()
        os.close(self.fd)


def write_file(path, blocks, block_bytes):
    rng = np.random.default_rng(0)
    with open(path, "wb") as f:
        for _ in range(blocks):
            f.write(rng.integers(0, 255, block_bytes, dtype=np.uint8).tobytes())


def main(blocks=256, block_bytes=1 << 20):
    path = os.path.join(tempfile.mkdtemp(), "cache.bin")
    write_file(path, blocks, block_bytes)
    cache = torch.zeros(blocks, block_bytes, dtype=torch.uint8, device="cuda")
    backend = DiskBackend(path, block_bytes)
    total = torch.zeros((), device="cuda", dtype=torch.int64)
    for first in range(0, blocks, 3):
        ids = list(range(first, min(first + 3, blocks)))
        loaded = backend.load(cache, ids)
        torch.cuda.current_stream().wait_event(loaded)
        total += cache[ids[0]:ids[-1] + 1].sum(dtype=torch.int64)
    backend.close()
    print(total.item())


if __name__ == "__main__":
    main()
