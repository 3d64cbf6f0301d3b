"""Checkpoint shards streamed from disk into a preallocated parameter arena."""
import os
import tempfile

import torch


class ShardReader:
    """Double-buffered reads; uploads go to their own stream."""

    def __init__(self, path, chunk=4 << 20):
        self.file = open(path, "rb", buffering=0)
        self.chunk = chunk
        self.stream = torch.cuda.Stream()
        self._buffers = {}

    def _staging(self, size):
        if size not in self._buffers:
            self._buffers[size] = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        return self._buffers[size]

    def read_into(self, target, offset):
        flat = target.view(-1)
        buffers = self._staging(self.chunk)
        busy = [None, None]
        self.file.seek(offset)
        for n, start in enumerate(range(0, flat.numel(), self.chunk)):
            k = n % 2
            if busy[k] is not None:
                busy[k].synchronize()
            size = min(self.chunk, flat.numel() - start)
            self.file.readinto(memoryview(buffers[k].numpy())[:size])
            with torch.cuda.stream(self.stream):
                flat[start:start + size].copy_(buffers[k][:size], non_blocking=True)
                busy[k] = self.stream.record_event()
        return self.stream.record_event()


class Arena:
    def __init__(self, sizes):
        self.parts = [torch.empty(s, dtype=torch.uint8, device="cuda") for s in sizes]
        torch.cuda.synchronize()

    def load(self, reader):
        offset, marks = 0, []
        for part in self.parts:
            marks.append(reader.read_into(part, offset))
            offset += part.numel()
        for mark in marks:
            torch.cuda.current_stream().wait_event(mark)
        return [p.sum(dtype=torch.int64) for p in self.parts]


def main():
    sizes = [10 << 20, 6 << 20, 14 << 20, 9 << 20]
    path = os.path.join(tempfile.mkdtemp(), "weights.bin")
    with open(path, "wb") as f:
        f.write(os.urandom(sum(sizes)))
    sums = Arena(sizes).load(ShardReader(path))
    print([int(s) for s in sums])


if __name__ == "__main__":
    main()
