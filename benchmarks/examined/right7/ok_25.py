"""LoRA adapter slots with LRU replacement."""
from collections import OrderedDict

import torch


class AdapterSlot:
    def __init__(self, dim, rank):
        self.a = torch.empty(dim, rank, device="cuda")
        self.b = torch.empty(rank, dim, device="cuda")
        self.ready = torch.cuda.Event()
        self.last_use = torch.cuda.Event()
        self.last_use.record()


class AdapterCache:
    def __init__(self, store: dict, capacity=3, dim=512, rank=16):
        self.store = store
        self.free = [AdapterSlot(dim, rank) for _ in range(capacity)]
        self.resident: OrderedDict[str, AdapterSlot] = OrderedDict()
        self.stream = torch.cuda.Stream()

    def prefetch(self, name: str) -> AdapterSlot:
        if name in self.resident:
            self.resident.move_to_end(name)
            return self.resident[name]
        slot = self.free.pop() if self.free else self.resident.popitem(last=False)[1]
        a, b = self.store[name]
        self.stream.wait_event(slot.last_use)
        with torch.cuda.stream(self.stream):
            slot.a.copy_(a, non_blocking=True)
            slot.b.copy_(b, non_blocking=True)
            slot.ready.record()
        self.resident[name] = slot
        return slot

    def apply(self, name: str, x: torch.Tensor) -> torch.Tensor:
        slot = self.prefetch(name)
        slot.ready.wait()
        out = x + (x @ slot.a) @ slot.b
        slot.last_use.record()
        return out


def main():
    store = {
        f"user{i}": (torch.randn(512, 16).pin_memory(), torch.randn(16, 512).pin_memory())
        for i in range(10)
    }
    cache = AdapterCache(store)
    x = torch.randn(8, 512, device="cuda")
    order = [0, 1, 2, 0, 5, 6, 1, 9, 9, 3]
    for now, ahead in zip(order, order[1:] + [0]):
        x = torch.tanh(cache.apply(f"user{now}", x))
        cache.prefetch(f"user{ahead}")
    print(x.mean().item())


if __name__ == "__main__":
    main()
