"""Multi-adapter serving: LoRA weights live in a few device slots and are swapped on demand."""
from collections import OrderedDict

import torch


class Slot:
    def __init__(self, rank, dim, device):
        self.a = torch.zeros(dim, rank, device=device, dtype=torch.float16)
        self.b = torch.zeros(rank, dim, device=device, dtype=torch.float16)
        self._resident = torch.cuda.Event()
        self._last_use = torch.cuda.Event()
        self._last_use.record()

    def fill(self, stream, host_a, host_b):
        stream.wait_event(self._last_use)
        with torch.cuda.stream(stream):
            self.a.copy_(host_a, non_blocking=True)
            self.b.copy_(host_b, non_blocking=True)
        self._resident.record(stream)

    @property
    def weights(self):
        torch.cuda.current_stream().wait_event(self._resident)
        return self.a, self.b

    def mark_used(self):
        self._last_use.record(torch.cuda.current_stream())


class AdapterPool:
    def __init__(self, registry, n_slots, rank, dim, device="cuda"):
        self.registry = registry
        self.stream = torch.cuda.Stream(device)
        self.free = [Slot(rank, dim, device) for _ in range(n_slots)]
        self.resident = OrderedDict()

    def acquire(self, name):
        slot = self.resident.pop(name, None)
        if slot is None:
            slot = self.free.pop() if self.free else self.resident.popitem(last=False)[1]
            slot.fill(self.stream, *self.registry[name])
        self.resident[name] = slot
        return slot


class LoRALinear:
    def __init__(self, base, pool):
        self.base = base
        self.pool = pool

    def __call__(self, x, adapter):
        slot = self.pool.acquire(adapter)
        y = x @ self.base
        a, b = slot.weights
        y += (x @ a) @ b
        slot.mark_used()
        return y


@torch.inference_mode()
def main():
    dim, rank = 2048, 16
    registry = {
        f"adapter-{i}": (torch.randn(dim, rank).half().pin_memory(), torch.randn(rank, dim).half().pin_memory())
        for i in range(12)
    }
    base = torch.randn(dim, dim, device="cuda", dtype=torch.float16)
    layer = LoRALinear(base, AdapterPool(registry, 3, rank, dim))
    names = sorted(registry)
    x = torch.randn(64, dim, device="cuda", dtype=torch.float16)
    for i in range(100):
        y = layer(x, names[(i * 5) % len(names)])
        x = torch.nn.functional.layer_norm(y, (dim,))
    print(x.float().std().item())


if __name__ == "__main__":
    main()
