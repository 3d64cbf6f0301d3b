"""Adapter slots for multi-LoRA serving, replaced in least-recently-used order."""
from collections import OrderedDict

import torch


class LoRAManager:
    def __init__(self, registry, num_slots, dim, rank):
        self.registry = registry
        self.a = torch.empty(num_slots, dim, rank, device="cuda")
        self.b = torch.empty(num_slots, rank, dim, device="cuda")
        self.stream = torch.cuda.Stream()
        self.active = OrderedDict()
        self.free = list(range(num_slots))
        self.ready = [torch.cuda.Event() for _ in range(num_slots)]
        self.last_use = [torch.cuda.Event() for _ in range(num_slots)]
        for event in self.last_use:
            event.record()

    def activate(self, name):
        if name in self.active:
            self.active.move_to_end(name)
            return self.active[name]
        slot = self.free.pop() if self.free else self.active.popitem(last=False)[1]
        a, b = self.registry[name]
        with torch.cuda.stream(self.stream):
            self.last_use[slot].wait()
            self.a[slot].copy_(a, non_blocking=True)
            self.b[slot].copy_(b, non_blocking=True)
            self.ready[slot].record()
        self.active[name] = slot
        return slot

    def apply(self, x, name):
        slot = self.activate(name)
        compute = torch.cuda.current_stream()
        compute.wait_event(self.ready[slot])
        y = (x @ self.a[slot]) @ self.b[slot]
        self.last_use[slot].record(compute)
        return y


def main():
    dim, rank = 1024, 16
    registry = {
        f"adapter-{i}": (torch.randn(dim, rank).pin_memory(), torch.randn(rank, dim).pin_memory())
        for i in range(12)
    }
    manager = LoRAManager(registry, 4, dim, rank)
    w = torch.randn(dim, dim, device="cuda") / 32
    x = torch.randn(16, dim, device="cuda")
    for step in range(300):
        x = torch.tanh(x @ w + manager.apply(x, f"adapter-{step * 5 % 12}"))
    print(x.sum().item())


if __name__ == "__main__":
    main()
