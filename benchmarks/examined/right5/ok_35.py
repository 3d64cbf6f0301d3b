from dataclasses import dataclass
from typing import List, Optional

import torch


@dataclass
class Block:
    index: int
    storage: torch.Tensor
    last_use: Optional[torch.cuda.Event] = None


class BlockPool:
    """Scratch blocks passed between streams; a freed block remembers its last user."""

    def __init__(self, count: int, numel: int, device: str = "cuda"):
        base = torch.empty(count, numel, device=device)
        born = torch.cuda.current_stream().record_event()
        self._free: List[Block] = [Block(i, base[i], born) for i in range(count)]

    def acquire(self) -> Block:
        if not self._free:
            raise RuntimeError("no free blocks")
        block = self._free.pop()
        if block.last_use is not None:
            torch.cuda.current_stream().wait_event(block.last_use)
            block.last_use = None
        return block

    def release(self, block: Block) -> None:
        block.last_use = torch.cuda.current_stream().record_event()
        self._free.append(block)


class Worker:
    def __init__(self, pool: BlockPool, stream: torch.cuda.Stream, weight: torch.Tensor):
        self.pool, self.stream, self.weight = pool, stream, weight
        self.total = torch.zeros((), device="cuda")

    def step(self, seed: int) -> None:
        gen = torch.Generator(device="cuda").manual_seed(seed)
        with torch.cuda.stream(self.stream):
            block = self.pool.acquire()
            try:
                x = block.storage.view(-1, self.weight.shape[0])
                x.normal_(generator=gen)
                self.total += (x @ self.weight).square().mean()
            finally:
                self.pool.release(block)


@torch.no_grad()
def main():
    weight = torch.randn(256, 256, device="cuda") / 16
    pool = BlockPool(2, 256 * 1024)
    workers = [Worker(pool, torch.cuda.Stream(), weight) for _ in range(4)]
    for w in workers:
        w.stream.wait_stream(torch.cuda.current_stream())
    for i in range(200):
        workers[i % 4].step(i)
    for w in workers:
        torch.cuda.current_stream().wait_stream(w.stream)
    print(torch.stack([w.total for w in workers]).tolist())


if __name__ == "__main__":
    main()
