"""Software-managed embedding cache with eviction to the host."""
import torch
import torch.nn as nn


class SlotCache:
    def __init__(self, rows, dim, slots, chunk):
        self.backing = torch.zeros(rows, dim).pin_memory()
        self.cache = torch.zeros(slots, chunk, dim, device="cuda")
        self.owner = [None] * slots
        self.chunk = chunk
        self.clock = 0
        self.evict_stream = torch.cuda.Stream()
        self.fill_stream = torch.cuda.Stream()
        torch.cuda.synchronize()

    def _rows(self, block):
        return self.backing[block * self.chunk:(block + 1) * self.chunk]

    def lookup(self, block):
        if block in self.owner:
            return self.cache[self.owner.index(block)]
        slot = self.clock % len(self.owner)
        self.clock += 1
        main = torch.cuda.current_stream()
        victim = self.owner[slot]
        if victim is not None:
            self.evict_stream.wait_stream(main)
            with torch.cuda.stream(self.evict_stream):
                self._rows(victim).copy_(self.cache[slot], non_blocking=True)
        self.fill_stream.wait_stream(main)
        with torch.cuda.stream(self.fill_stream):
            self.cache[slot].copy_(self._rows(block), non_blocking=True)
        main.wait_stream(self.fill_stream)
        self.owner[slot] = block
        return self.cache[slot]

    def flush(self):
        self.evict_stream.synchronize()
        for slot, block in enumerate(self.owner):
            if block is not None:
                self._rows(block).copy_(self.cache[slot])


def train(steps=500):
    cache = SlotCache(rows=1 << 20, dim=64, slots=8, chunk=4096)
    head = nn.Linear(64, 1).cuda()
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        block = int(torch.randint(0, 64, (1,), generator=generator))
        rows = cache.lookup(block)
        weight = rows.detach().requires_grad_(True)
        loss = (head(weight) - 1).pow(2).mean()
        (grad,) = torch.autograd.grad(loss, weight)
        rows.sub_(grad, alpha=0.1)
    cache.flush()
    return cache.backing.norm()


print(train())
