"""Scratch blocks shared by several worker streams."""
from collections import deque
from dataclasses import dataclass, field
from typing import Optional

import torch


@dataclass
class Block:
    data: torch.Tensor
    last_use: Optional[torch.cuda.Event] = None
    written: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class BlockPool:
    def __init__(self, count, numel):
        slab = torch.empty(count, numel, device="cuda")
        ready = torch.cuda.Event()
        ready.record()
        self._free = deque(Block(slab[i], ready) for i in range(count))

    def take(self):
        block = self._free.popleft()
        torch.cuda.current_stream().wait_event(block.last_use)
        return block

    def give(self, block):
        block.last_use = torch.cuda.Event()
        block.last_use.record()
        self._free.append(block)


class Worker:
    def __init__(self, pool, weight):
        self.pool = pool
        self.weight = weight
        self.produce = torch.cuda.Stream()
        self.consume = torch.cuda.Stream()
        for stream in (self.produce, self.consume):
            stream.wait_stream(torch.cuda.current_stream())
        self.rows, self.cols = 256, weight.shape[0]
        with torch.cuda.stream(self.consume):
            self.total = torch.zeros(weight.shape[1], device="cuda")

    def submit(self, seed):
        with torch.cuda.stream(self.produce):
            block = self.pool.take()
            tile = block.data[: self.rows * self.cols].view(self.rows, self.cols)
            generator = torch.Generator("cuda").manual_seed(seed)
            torch.randn(tile.shape, generator=generator, out=tile)
            block.written.record()
        with torch.cuda.stream(self.consume):
            self.consume.wait_event(block.written)
            self.total += (tile @ self.weight).relu_().sum(dim=0)
            self.pool.give(block)

    def result(self):
        with torch.cuda.stream(self.consume):
            return self.total.cpu()


def main():
    weight = torch.randn(512, 64, device="cuda")
    pool = BlockPool(count=6, numel=256 * 512)
    workers = [Worker(pool, weight) for _ in range(3)]
    for step in range(60):
        workers[step % len(workers)].submit(step)
    return torch.stack([w.result() for w in workers])


if __name__ == "__main__":
    print(main().sum(dim=1))
