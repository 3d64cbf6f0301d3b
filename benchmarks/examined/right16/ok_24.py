"""Small cache of low-rank adapters with a fixed number of device slots."""
from __future__ import annotations

from collections import OrderedDict

import torch


class AdapterCache:
    def __init__(self, slots: int, dim: int, rank: int, device: torch.device):
        self.device = device
        self._down = torch.zeros(slots, dim, rank, device=device)
        self._up = torch.zeros(slots, rank, dim, device=device)
        self._host: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._resident: OrderedDict[str, int] = OrderedDict()
        self._vacant = list(range(slots))
        self._ready = [torch.cuda.Event() for _ in range(slots)]
        self._uses: list[dict[int, torch.cuda.Event]] = [{} for _ in range(slots)]
        self._loader = torch.cuda.Stream(device=device)
        self._loader.wait_stream(torch.cuda.current_stream(device))
        self._down.record_stream(self._loader)
        self._up.record_stream(self._loader)

    def register(self, name: str, down: torch.Tensor, up: torch.Tensor) -> None:
        if name in self._host:
            raise KeyError(f"{name} is already registered")
        if down.shape != self._down.shape[1:] or up.shape != self._up.shape[1:]:
            raise ValueError("adapter has the wrong shape")
        self._host[name] = (down.detach().clone().pin_memory(), up.detach().clone().pin_memory())

    def _load(self, name: str) -> int:
        down, up = self._host[name]
        if self._vacant:
            slot = self._vacant.pop()
        else:
            _, slot = self._resident.popitem(last=False)
        for used in self._uses[slot].values():
            self._loader.wait_event(used)
        self._uses[slot] = {}
        with torch.cuda.stream(self._loader):
            self._down[slot].copy_(down, non_blocking=True)
            self._up[slot].copy_(up, non_blocking=True)
        self._ready[slot].record(self._loader)
        self._resident[name] = slot
        return slot

    def prefetch(self, name: str) -> int:
        slot = self._resident.get(name)
        if slot is None:
            return self._load(name)
        self._resident.move_to_end(name)
        return slot

    @torch.inference_mode()
    def apply(self, name: str, x: torch.Tensor) -> torch.Tensor:
        slot = self.prefetch(name)
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(self._ready[slot])
        used = self._uses[slot].setdefault(stream.cuda_stream, torch.cuda.Event())
        try:
            return x + (x @ self._down[slot]) @ self._up[slot]
        finally:
            used.record(stream)


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    cache = AdapterCache(slots=2, dim=256, rank=8, device=device)
    for index in range(6):
        cache.register(f"user{index}", torch.randn(256, 8) / 16, torch.randn(8, 256) / 3)
    streams = [torch.cuda.Stream(device=device) for _ in range(3)]
    sums: list[float] = []
    for step in range(24):
        stream = streams[step % 3]
        cache.prefetch(f"user{(step + 1) % 6}")
        with torch.cuda.stream(stream):
            x = torch.ones(32, 256, device=device)
            y = cache.apply(f"user{step % 6}", x)
            z = cache.apply(f"user{(step * 5) % 6}", y)
            sums.append(z.mean().item())
    print(sums[:6], sums[-1])


if __name__ == "__main__":
    main()
