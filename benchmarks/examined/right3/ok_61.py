"""LoRA adapters cached in a few device slots."""
from collections import OrderedDict
from contextlib import contextmanager
from typing import Optional

import torch


class AdapterStore:
    def __init__(self, names: list[str], dim: int, rank: int):
        self.host = {
            name: (torch.randn(rank, dim).mul_(0.01).pin_memory(), torch.randn(dim, rank).mul_(0.01).pin_memory())
            for name in names
        }


class AdapterCache:
    def __init__(self, store: AdapterStore, slots: int, dim: int, rank: int, device: torch.device):
        self.store = store
        self.a = torch.zeros(slots, rank, dim, device=device)
        self.b = torch.zeros(slots, dim, rank, device=device)
        self.device = device
        self.resident: OrderedDict[str, int] = OrderedDict()
        self.unused = list(range(slots))
        self.loaded: list[Optional[torch.cuda.Event]] = [None] * slots
        self.last_use: list[Optional[torch.cuda.Event]] = [None] * slots
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))

    def prefetch(self, name: str) -> int:
        if name in self.resident:
            self.resident.move_to_end(name)
            return self.resident[name]
        slot = self.unused.pop() if self.unused else self.resident.popitem(last=False)[1]
        if self.last_use[slot] is not None:
            self.stream.wait_event(self.last_use[slot])
        host_a, host_b = self.store.host[name]
        with torch.cuda.stream(self.stream):
            self.a[slot].copy_(host_a, non_blocking=True)
            self.b[slot].copy_(host_b, non_blocking=True)
            self.loaded[slot] = self.stream.record_event()
        self.resident[name] = slot
        return slot

    @contextmanager
    def using(self, name: str):
        slot = self.prefetch(name)
        current = torch.cuda.current_stream(self.device)
        current.wait_event(self.loaded[slot])
        try:
            yield self.a[slot], self.b[slot]
        finally:
            self.last_use[slot] = current.record_event()


class LoraLinear:
    def __init__(self, dim: int, cache: AdapterCache):
        self.weight = torch.randn(dim, dim, device=cache.device) * 0.02
        self.cache = cache

    def __call__(self, x: torch.Tensor, adapter: str) -> torch.Tensor:
        y = x @ self.weight.T
        with self.cache.using(adapter) as (a, b):
            return y + (x @ a.T) @ b.T


def main():
    device = torch.device("cuda")
    dim, rank = 1024, 16
    names = [f"user{i}" for i in range(12)]
    cache = AdapterCache(AdapterStore(names, dim, rank), slots=4, dim=dim, rank=rank, device=device)
    layer = LoraLinear(dim, cache)
    x = torch.randn(32, dim, device=device)
    order = [names[(7 * i) % len(names)] for i in range(60)]
    for i, name in enumerate(order):
        if i + 1 < len(order):
            cache.prefetch(order[i + 1])
        x = torch.tanh(layer(x, name))
    print(x.norm().item())


if __name__ == "__main__":
    main()
