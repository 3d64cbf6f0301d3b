from collections import OrderedDict
from dataclasses import dataclass, field

import torch


@dataclass
class Slot:
    index: int
    loaded: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    used: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class AdapterStore:
    def __init__(self, dim, rank):
        self.dim, self.rank = dim, rank
        self.adapters = {}

    def add(self, name):
        a = torch.randn(self.rank, self.dim).half().pin_memory()
        b = torch.randn(self.dim, self.rank).half().pin_memory()
        self.adapters[name] = (a, b)


class LoraManager:
    def __init__(self, store, capacity):
        self.store = store
        self.a = torch.zeros(capacity, store.rank, store.dim, dtype=torch.float16, device="cuda")
        self.b = torch.zeros(capacity, store.dim, store.rank, dtype=torch.float16, device="cuda")
        self.slots = [Slot(i) for i in range(capacity)]
        self.active: OrderedDict[str, Slot] = OrderedDict()
        self.stream = torch.cuda.Stream()
        torch.cuda.synchronize()

    def _evict(self):
        for name, slot in self.active.items():
            if slot.used.query() and slot.loaded.query():
                return self.active.pop(name)
        name, slot = next(iter(self.active.items()))
        slot.loaded.synchronize()
        slot.used.synchronize()
        return self.active.pop(name)

    def activate(self, name):
        slot = self.active.get(name)
        if slot is not None:
            self.active.move_to_end(name)
            return slot
        slot = self.slots.pop() if self.slots else self._evict()
        a, b = self.store.adapters[name]
        with torch.cuda.stream(self.stream):
            self.a[slot.index].copy_(a, non_blocking=True)
            self.b[slot.index].copy_(b, non_blocking=True)
            slot.loaded.record()
        self.active[name] = slot
        return slot

    def apply(self, name, x):
        slot = self.activate(name)
        stream = torch.cuda.current_stream()
        stream.wait_event(slot.loaded)
        y = (x @ self.a[slot.index].t()) @ self.b[slot.index].t()
        slot.used.record(stream)
        return y


@torch.inference_mode()
def main():
    store = AdapterStore(1024, 16)
    for i in range(20):
        store.add(f"user{i}")
    manager = LoraManager(store, 4)
    base = torch.randn(1024, 1024, dtype=torch.float16, device="cuda") / 32
    x = torch.randn(8, 1024, dtype=torch.float16, device="cuda")
    sums = []
    for i in range(200):
        y = x @ base + manager.apply(f"user{i * 7 % 20}", x)
        sums.append(y.float().abs().mean())
    return torch.stack(sums).tolist()
