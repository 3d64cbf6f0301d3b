"""Inference with weights in page-locked memory; two device slots are refilled by module hooks."""
from typing import List

import torch
from torch import nn


class SlotLinear(nn.Module):
    """Computes with a borrowed weight that a streamer lends for the time of the call."""

    def __init__(self):
        super().__init__()
        self.lent: torch.Tensor = torch.empty(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.nn.functional.gelu(x @ self.lent)


class WeightStreamer:
    def __init__(self, layers: List[SlotLinear], weights: List[torch.Tensor], device: torch.device):
        self.layers = layers
        self.weights = [w.pin_memory() for w in weights]
        self.stream = torch.cuda.Stream(device)
        self.slots = [torch.empty_like(weights[0], device=device) for _ in range(2)]
        self.loaded = [torch.cuda.Event() for _ in self.slots]
        self.consumed = [torch.cuda.Event() for _ in self.slots]
        torch.cuda.synchronize(device)
        for index, layer in enumerate(layers):
            layer.register_forward_pre_hook(self._lend(index))
            layer.register_forward_hook(self._take_back(index))

    def _load(self, index: int) -> None:
        slot = index % len(self.slots)
        self.stream.wait_event(self.consumed[slot])
        with torch.cuda.stream(self.stream):
            self.slots[slot].copy_(self.weights[index], non_blocking=True)
            self.loaded[slot].record(self.stream)

    def begin(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        for index in range(min(len(self.slots), len(self.layers))):
            self._load(index)

    def _lend(self, index: int):
        slot = index % len(self.slots)

        def hook(module: SlotLinear, args) -> None:
            torch.cuda.current_stream().wait_event(self.loaded[slot])
            module.lent = self.slots[slot]

        return hook

    def _take_back(self, index: int):
        slot = index % len(self.slots)

        def hook(module: SlotLinear, args, output) -> None:
            self.consumed[slot].record(torch.cuda.current_stream())
            module.lent = torch.empty(0)
            if index + len(self.slots) < len(self.layers):
                self._load(index + len(self.slots))

        return hook


class StreamedNetwork(nn.Module):
    def __init__(self, depth: int, width: int, device: torch.device):
        super().__init__()
        self.layers = nn.ModuleList(SlotLinear() for _ in range(depth))
        weights = [torch.randn(width, width) * width**-0.5 for _ in range(depth)]
        self.streamer = WeightStreamer(list(self.layers), weights, device)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.streamer.begin()
        for layer in self.layers:
            x = layer(x)
        return x


def main() -> None:
    device = torch.device("cuda")
    network = StreamedNetwork(24, 4096, device)
    for _ in range(5):
        y = network(torch.randn(2048, 4096, device=device))
    print(y.norm().item())


if __name__ == "__main__":
    main()
