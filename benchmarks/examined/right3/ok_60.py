"""A free list of device blocks that remember their last use."""
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Optional

import torch


@dataclass
class Block:
    data: torch.Tensor
    last_use: Optional[torch.cuda.Event] = None


class BlockPool:
    def __init__(self, count: int, numel: int, device: torch.device):
        self._lock = threading.Lock()
        self._free = [Block(torch.zeros(numel, device=device)) for _ in range(count)]
        made = torch.cuda.current_stream(device).record_event()
        for block in self._free:
            block.last_use = made

    @contextmanager
    def block(self, numel: int):
        with self._lock:
            block = self._free.pop(0)
        stream = torch.cuda.current_stream(block.data.device)
        stream.wait_event(block.last_use)
        try:
            yield block.data[:numel]
        finally:
            block.last_use = stream.record_event()
            with self._lock:
                self._free.append(block)


class Worker(threading.Thread):
    def __init__(self, pool: BlockPool, jobs: list[int], device: torch.device):
        super().__init__()
        self.pool, self.jobs, self.device = pool, jobs, device
        self.answers: dict[int, float] = {}

    def run(self) -> None:
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(torch.cuda.Stream()):
            total = torch.zeros((), device=self.device)
            for seed in self.jobs:
                total.zero_()
                with self.pool.block(1 << 16) as scratch:
                    torch.arange(scratch.numel(), out=scratch)
                    scratch.mul_(seed).sin_()
                    with self.pool.block(1 << 14) as small:
                        torch.sum(scratch.view(-1, 4), dim=1, out=small)
                        total += small.square().sum()
                self.answers[seed] = total.item()


def main():
    device = torch.device("cuda", 0)
    pool = BlockPool(count=8, numel=1 << 16, device=device)
    workers = [Worker(pool, list(range(w, 100, 3)), device) for w in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    print(sum(v for w in workers for v in w.answers.values()))


if __name__ == "__main__":
    main()
