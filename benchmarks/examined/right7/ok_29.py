"""Device block pool crossing streams."""
from collections import deque
from contextlib import contextmanager

import torch


class Block:
    __slots__ = ("data", "fence")

    def __init__(self, nbytes: int):
        self.data = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        self.fence = torch.cuda.current_stream().record_event()


class BlockPool:
    def __init__(self, nbytes: int, count: int):
        self._free = deque(Block(nbytes) for _ in range(count))

    def take(self) -> Block:
        block = self._free.popleft()
        torch.cuda.current_stream().wait_event(block.fence)
        return block

    def give(self, block: Block):
        block.fence = torch.cuda.current_stream().record_event()
        self._free.append(block)

    @contextmanager
    def floats(self, *shape):
        block = self.take()
        n = torch.Size(shape).numel()
        try:
            yield block.data[: 4 * n].view(torch.float32).view(shape)
        finally:
            self.give(block)


class Workers:
    def __init__(self, n: int):
        self.streams = [torch.cuda.Stream() for _ in range(n)]
        self.sums = torch.zeros(n, device="cuda")
        for s in self.streams:
            s.wait_stream(torch.cuda.current_stream())

    def run(self, pool: BlockPool, step: int):
        i = step % len(self.streams)
        with torch.cuda.stream(self.streams[i]):
            with pool.floats(256, 256) as a, pool.floats(256, 256) as b:
                a.fill_(step)
                torch.mm(a, a, out=b)
                self.sums[i] += b.sum()

    def total(self):
        for s in self.streams:
            torch.cuda.current_stream().wait_stream(s)
        return self.sums.sum().item()


if __name__ == "__main__":
    workers, pool = Workers(3), BlockPool(256 * 256 * 4, 4)
    for step in range(30):
        workers.run(pool, step)
    print(workers.total())
