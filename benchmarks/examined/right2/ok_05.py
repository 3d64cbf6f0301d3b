from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
import torch.nn as nn
from torch.func import functional_call


@dataclass
class Slot:
    """One set of static weight buffers shared by layers in turn."""

    buffers: dict[str, torch.Tensor]
    loaded: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    released: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class StaticBufferPool:
    def __init__(self, template: nn.Module, num_slots: int, device):
        self.slots = []
        for _ in range(num_slots):
            slot = Slot({n: torch.empty(p.shape, dtype=p.dtype, device=device)
                         for n, p in template.named_parameters()})
            slot.released.record()
            self.slots.append(slot)

    def __getitem__(self, layer: int) -> Slot:
        return self.slots[layer % len(self.slots)]

    def __len__(self) -> int:
        return len(self.slots)


class PrefetchOffloader:
    def __init__(self, layers: list[nn.Module], device, prefetch_step: int = 2):
        self.layers = layers
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)
        self.pool = StaticBufferPool(layers[0], prefetch_step, device)
        self.host = [
            {n: p.detach().pin_memory() for n, p in layer.named_parameters()}
            for layer in layers
        ]

    def start_prefetch(self, layer: int) -> None:
        slot = self.pool[layer]
        self.copy_stream.wait_event(slot.released)
        with torch.cuda.stream(self.copy_stream):
            for name, weight in self.host[layer].items():
                slot.buffers[name].copy_(weight, non_blocking=True)
            slot.loaded.record(self.copy_stream)

    def schedule(self) -> Iterator[int]:
        depth = len(self.pool)
        for layer in range(min(depth, len(self.layers))):
            self.start_prefetch(layer)
        for layer in range(len(self.layers)):
            yield layer
            if layer + depth < len(self.layers):
                self.start_prefetch(layer + depth)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        stream = torch.cuda.current_stream(self.device)
        for layer in self.schedule():
            slot = self.pool[layer]
            stream.wait_event(slot.loaded)
            x = functional_call(self.layers[layer], slot.buffers, (x,))
            slot.released.record(stream)
        return x


def main():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    layers = [nn.Linear(2048, 2048) for _ in range(24)]
    offloader = PrefetchOffloader(layers, device)
    for _ in range(10):
        y = offloader.forward(torch.randn(16, 2048, device=device))
        print(y.norm().item())


if __name__ == "__main__":
    main()
