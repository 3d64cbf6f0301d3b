from collections import OrderedDict
from typing import Dict, List, Tuple

import torch

Adapter = Tuple[torch.Tensor, torch.Tensor]


class LoraSlots:
    """Fixed number of device-resident adapters, replaced in LRU order."""

    def __init__(self, num_slots: int, dim: int, rank: int):
        self.a = torch.zeros(num_slots, dim, rank, device="cuda", dtype=torch.half)
        self.b = torch.zeros(num_slots, rank, dim, device="cuda", dtype=torch.half)
        self.host: Dict[str, Adapter] = {}
        self.lru: "OrderedDict[str, int]" = OrderedDict()
        self.free: List[int] = list(range(num_slots))
        self.last_use: Dict[int, torch.cuda.Event] = {}
        self.loaded: Dict[int, torch.cuda.Event] = {}
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def register(self, name: str, a: torch.Tensor, b: torch.Tensor) -> None:
        self.host[name] = (a.half().pin_memory(), b.half().pin_memory())

    def _claim(self) -> int:
        if self.free:
            return self.free.pop()
        _, slot = self.lru.popitem(last=False)
        return slot

    def prefetch(self, name: str) -> int:
        if name in self.lru:
            self.lru.move_to_end(name)
            return self.lru[name]
        slot = self._claim()
        a, b = self.host[name]
        if slot in self.last_use:
            self.stream.wait_event(self.last_use.pop(slot))
        with torch.cuda.stream(self.stream):
            self.a[slot].copy_(a, non_blocking=True)
            self.b[slot].copy_(b, non_blocking=True)
            self.loaded[slot] = self.stream.record_event()
        self.lru[name] = slot
        return slot

    def apply(self, name: str, x: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
        slot = self.prefetch(name)
        compute = torch.cuda.current_stream()
        compute.wait_event(self.loaded[slot])
        out = torch.addmm(base, x @ self.a[slot], self.b[slot])
        self.last_use[slot] = compute.record_event()
        return out


@torch.inference_mode()
def serve(requests, slots: LoraSlots, weight: torch.Tensor):
    checks = []
    for i, (name, x) in enumerate(requests):
        if i + 1 < len(requests):
            slots.prefetch(requests[i + 1][0])
        checks.append(slots.apply(name, x, x @ weight).float().norm())
    return torch.stack(checks).cpu()


def main():
    dim, rank = 2048, 16
    slots = LoraSlots(4, dim, rank)
    for i in range(10):
        slots.register(f"adapter-{i}", torch.randn(dim, rank), torch.randn(rank, dim))
    weight = torch.randn(dim, dim, device="cuda", dtype=torch.half) * 0.01
    reqs = [(f"adapter-{(i * 7) % 10}", torch.randn(32, dim, device="cuda", dtype=torch.half)) for i in range(60)]
    print(serve(reqs, slots, weight))


if __name__ == "__main__":
    main()
