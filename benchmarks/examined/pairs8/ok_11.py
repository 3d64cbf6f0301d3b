from collections import OrderedDict

import torch


class LoRASlot:
    def __init__(self, index):
        self.index = index
        self.loaded = torch.cuda.Event()
        self.last_use = torch.cuda.Event()


class LoRAManager:
    def __init__(self, slots=4, dim=1024, rank=16):
        self.a = torch.empty(slots, rank, dim, device="cuda")
        self.b = torch.empty(slots, dim, rank, device="cuda")
        self.free = [LoRASlot(i) for i in range(slots)]
        self.active = OrderedDict()
        self.host = {}
        self.load_stream = torch.cuda.Stream()

    def register(self, name, a, b):
        self.host[name] = (a.pin_memory(), b.pin_memory())

    def activate(self, name):
        slot = self.active.get(name)
        if slot is not None:
            self.active.move_to_end(name)
            return slot
        slot = self.free.pop() if self.free else self.active.popitem(last=False)[1]
        a, b = self.host[name]
        with torch.cuda.stream(self.load_stream):
            self.load_stream.wait_event(slot.last_use)
            self.a[slot.index].copy_(a, non_blocking=True)
            self.b[slot.index].copy_(b, non_blocking=True)
            slot.loaded.record()
        self.active[name] = slot
        return slot

    def apply(self, name, x):
        slot = self.activate(name)
        torch.cuda.current_stream().wait_event(slot.loaded)
        delta = (x @ self.a[slot.index].T) @ self.b[slot.index].T
        slot.last_use.record()
        return delta


def main():
    mgr = LoRAManager()
    for i in range(9):
        mgr.register(f"adapter-{i}", torch.randn(16, 1024), torch.randn(1024, 16))
    base = torch.randn(1024, 1024, device="cuda")
    x = torch.randn(32, 1024, device="cuda")
    total = torch.zeros((), device="cuda")
    for step in range(60):
        name = f"adapter-{(step * 5) % 9}"
        y = x @ base + mgr.apply(name, x)
        total += y.square().mean()
    print(total.item())


if __name__ == "__main__":
    main()
