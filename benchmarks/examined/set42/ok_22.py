"""KV tiering with slots that return to the pool after their transfer ended."""
from collections import deque
from typing import List, Optional

import torch


class SlotPool:
    def __init__(self, n: int, shape, dtype):
        self.buffer = torch.empty((n, *shape), dtype=dtype).pin_memory()
        self.free: List[int] = list(range(n))
        self.quarantine: deque = deque()

    def alloc(self) -> int:
        self._reap()
        if not self.free:
            slot, ev = self.quarantine.popleft()
            ev.synchronize()
            return slot
        return self.free.pop()

    def retire(self, slot: int, ev: torch.cuda.Event):
        self.quarantine.append((slot, ev))

    def _reap(self):
        while self.quarantine and self.quarantine[0][1].query():
            slot, _ = self.quarantine.popleft()
            self.free.append(slot)


class Tier:
    def __init__(self, pool: SlotPool, blocks: torch.Tensor):
        self.pool = pool
        self.blocks = blocks
        self.loader = torch.cuda.Stream()
        self.saver = torch.cuda.Stream()

    def load(self, slot: int, block: int) -> torch.cuda.Event:
        self.loader.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.loader):
            self.blocks[block].copy_(self.pool.buffer[slot], non_blocking=True)
            ev = torch.cuda.Event()
            ev.record()
        self.pool.retire(slot, ev)
        return ev

    def save(self, block: int) -> int:
        slot = self.pool.alloc()
        self.saver.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.saver):
            self.pool.buffer[slot].copy_(self.blocks[block], non_blocking=True)
        return slot


class Server:
    def __init__(self, blocks: int, shape):
        self.blocks = torch.zeros((blocks, *shape), device="cuda")
        self.tier = Tier(SlotPool(4, shape, torch.float32), self.blocks)
        self.proj = torch.randn(shape[-1], 64, device="cuda")

    def warm(self, block: int) -> int:
        self.blocks[block].uniform_()
        return self.tier.save(block)

    def turn(self, slot: int, target: int, fresh: int):
        loaded = self.tier.load(slot, target)
        self.blocks[fresh].uniform_()
        new_slot = self.tier.save(fresh)
        torch.cuda.current_stream().wait_event(loaded)
        score = (self.blocks[target] @ self.proj).sum()
        return new_slot, score


def main(rounds: int = 32):
    server = Server(blocks=3 + rounds, shape=(1024, 512))
    slot = server.warm(0)
    server.tier.saver.synchronize()
    total: Optional[torch.Tensor] = None
    for i in range(rounds):
        slot, score = server.turn(slot, target=1, fresh=3 + i)
        server.tier.saver.synchronize()
        total = score if total is None else total + score
    print(total.item())


if __name__ == "__main__":
    main()
