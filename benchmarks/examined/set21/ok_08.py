from collections import OrderedDict
from typing import Dict, List, Optional

import torch
import torch.nn as nn


class LoRAWeights:
    def __init__(self, rank: int, hidden: int, depth: int):
        self.a = [torch.randn(rank, hidden).mul_(0.02).pin_memory() for _ in range(depth)]
        self.b = [torch.randn(hidden, rank).mul_(0.02).pin_memory() for _ in range(depth)]


class LoRAOverlapLoader:
    """Issues adapter copies on a side stream."""

    def __init__(self, device: torch.device):
        self.stream = torch.cuda.Stream(device)
        self.loaded: Optional[torch.cuda.Event] = None

    def __enter__(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        self._ctx = torch.cuda.stream(self.stream)
        self._ctx.__enter__()
        return self

    def __exit__(self, *exc):
        event = torch.cuda.Event()
        event.record(self.stream)
        self.loaded = event
        self._ctx.__exit__(*exc)

    def join(self) -> None:
        if self.loaded is not None:
            torch.cuda.current_stream().wait_event(self.loaded)
            self.loaded = None


class LoRALayer(nn.Module):
    def __init__(self, hidden: int, rank: int, slots: int):
        super().__init__()
        self.base = nn.Linear(hidden, hidden)
        self.register_buffer("a_stacked", torch.zeros(slots, rank, hidden))
        self.register_buffer("b_stacked", torch.zeros(slots, hidden, rank))

    def forward(self, x: torch.Tensor, slot: int) -> torch.Tensor:
        return self.base(x) + x @ self.a_stacked[slot].t() @ self.b_stacked[slot].t()


class LoRAManager:
    def __init__(self, hidden: int, rank: int, depth: int, slots: int):
        self.device = torch.device("cuda")
        self.layers = nn.ModuleList([LoRALayer(hidden, rank, slots) for _ in range(depth)]).to(self.device)
        self.loader = LoRAOverlapLoader(self.device)
        self.slot_of: "OrderedDict[str, int]" = OrderedDict()
        self.free: List[int] = list(range(slots))

    @torch.no_grad()
    def activate_adapter(self, name: str, weights: LoRAWeights) -> int:
        if name in self.slot_of:
            self.slot_of.move_to_end(name)
            return self.slot_of[name]
        slot = self.free.pop() if self.free else self.slot_of.popitem(last=False)[1]
        with self.loader:
            for layer, a, b in zip(self.layers, weights.a, weights.b):
                layer.a_stacked[slot].copy_(a, non_blocking=True)
                layer.b_stacked[slot].copy_(b, non_blocking=True)
        self.slot_of[name] = slot
        return slot

    @torch.inference_mode()
    def forward(self, x: torch.Tensor, slot: int) -> torch.Tensor:
        self.loader.join()
        for layer in self.layers:
            x = torch.relu(layer(x, slot))
        return x


def serve(requests: int = 100) -> torch.Tensor:
    manager = LoRAManager(hidden=2048, rank=16, depth=16, slots=4)
    adapters: Dict[str, LoRAWeights] = {f"lora-{i}": LoRAWeights(16, 2048, 16) for i in range(9)}
    total = torch.zeros((), device="cuda")
    for i in range(requests):
        name = f"lora-{(i * 7) % 9}"
        x = torch.randn(128, 2048, device="cuda")
        slot = manager.activate_adapter(name, adapters[name])
        total += manager.forward(x, slot).mean()
    return total.cpu()
