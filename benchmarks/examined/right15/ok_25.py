"""Least-recently-used store of low-rank adapters, loaded ahead of their first use."""
from collections import OrderedDict

import torch


class AdapterStore:
    def __init__(self, host_adapters, capacity, device="cuda:0"):
        self.device = torch.device(device)
        self.capacity = capacity
        self.stream = torch.cuda.Stream(self.device)
        self._host = {name: (a.pin_memory(), b.pin_memory())
                      for name, (a, b) in host_adapters.items()}
        self._resident = OrderedDict()

    def prefetch(self, name):
        if name in self._resident:
            self._resident.move_to_end(name)
            return
        a, b = self._host[name]
        while len(self._resident) >= self.capacity:
            self._resident.popitem(last=False)
        with torch.cuda.stream(self.stream):
            pair = (a.to(self.device, non_blocking=True),
                    b.to(self.device, non_blocking=True))
            self._resident[name] = (pair, self.stream.record_event())

    def get(self, name):
        self.prefetch(name)
        pair, loaded = self._resident[name]
        current = torch.cuda.current_stream(self.device)
        current.wait_event(loaded)
        for t in pair:
            t.record_stream(current)
        return pair

    def evict(self, name):
        self._resident.pop(name, None)

    def add(self, name, a, b):
        self._host[name] = (a.pin_memory(), b.pin_memory())
        self.evict(name)


@torch.inference_mode()
def apply(x, weight, store, names, upcoming=()):
    base = x @ weight
    for name in upcoming:
        store.prefetch(name)
    rows = []
    for row, name in zip(base.unbind(0), names):
        a, b = store.get(name)
        rows.append(row + (x[len(rows)] @ a) @ b)
    return torch.stack(rows)


def main():
    torch.manual_seed(0)
    adapters = {f"user{i}": (torch.randn(256, 8), torch.randn(8, 256)) for i in range(12)}
    store = AdapterStore(adapters, capacity=4)
    weight = torch.randn(256, 256, device=store.device)
    for step in range(10):
        names = [f"user{(step + j) % 12}" for j in range(6)]
        ahead = [f"user{(step + 6) % 12}"]
        x = torch.randn(6, 256, device=store.device)
        print(step, apply(x, weight, store, names, ahead).norm().item())
    store.add("user0", torch.zeros(256, 8), torch.zeros(8, 256))
    print(store.get("user0")[0].abs().sum().item())


if __name__ == "__main__":
    main()
