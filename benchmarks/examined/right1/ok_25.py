"""A block allocator shared by several streams; free blocks remember their last use."""
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Optional

import torch


@dataclass
class Block:
    index: int
    last_use: Optional[torch.cuda.Event] = None


class BlockPool:
    def __init__(self, num_blocks, elements):
        self.storage = torch.zeros(num_blocks, elements, device="cuda")
        created = torch.cuda.current_stream().record_event()
        self.free = deque(Block(i, created) for i in range(num_blocks))

    def acquire(self, count):
        stream = torch.cuda.current_stream()
        blocks = [self.free.popleft() for _ in range(count)]
        for block in blocks:
            stream.wait_event(block.last_use)
        return blocks

    def release(self, blocks):
        fence = torch.cuda.current_stream().record_event()
        for block in blocks:
            block.last_use = fence
            self.free.append(block)

    @contextmanager
    def lease(self, count):
        blocks = self.acquire(count)
        try:
            yield [self.storage[b.index] for b in blocks]
        finally:
            self.release(blocks)


class Lane:
    """A request lane with a stream and a private accumulator."""

    def __init__(self, pool, seed):
        self.pool = pool
        self.stream = torch.cuda.Stream()
        self.gen = torch.Generator(device="cuda").manual_seed(seed)
        with torch.cuda.stream(self.stream):
            self.total = torch.zeros((), device="cuda")

    def step(self, count):
        with torch.cuda.stream(self.stream), self.pool.lease(count) as scratch:
            for view in scratch:
                view.normal_(generator=self.gen)
            for left, right in zip(scratch, scratch[1:]):
                left.mul_(right)
                self.total += left.sum()

    def result(self):
        with torch.cuda.stream(self.stream):
            return self.total.item()


def main():
    pool = BlockPool(num_blocks=24, elements=1 << 18)
    lanes = [Lane(pool, seed) for seed in range(4)]
    for step in range(200):
        lanes[step % 4].step(2 + step % 5)
    print([lane.result() for lane in lanes])


if __name__ == "__main__":
    main()
