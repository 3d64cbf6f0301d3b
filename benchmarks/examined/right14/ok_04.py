"""Runs a deep stack of layers whose weights stay in host memory."""
from __future__ import annotations

from typing import Iterable

import torch
from torch import nn
from torch.func import functional_call


class LayerStreamer:
    def __init__(self, layers: Iterable[nn.Module], device: torch.device, ahead: int = 1) -> None:
        self.device = device
        self.ahead = ahead
        self.copy_stream = torch.cuda.Stream(device)
        self.layers = [layer.eval() for layer in layers]
        self.host = [
            {name: p.detach().pin_memory() for name, p in layer.named_parameters()}
            for layer in self.layers
        ]
        self.resident: dict[int, dict[str, torch.Tensor]] = {}
        self.ready: dict[int, torch.cuda.Event] = {}

    def _prefetch(self, index: int) -> None:
        if index >= len(self.layers) or index in self.resident:
            return
        with torch.cuda.stream(self.copy_stream):
            weights = {
                name: t.to(self.device, non_blocking=True) for name, t in self.host[index].items()
            }
            self.ready[index] = self.copy_stream.record_event()
        self.resident[index] = weights

    def _claim(self, index: int, stream: torch.cuda.Stream) -> dict[str, torch.Tensor]:
        stream.wait_event(self.ready.pop(index))
        weights = self.resident.pop(index)
        for tensor in weights.values():
            tensor.record_stream(stream)
        return weights

    @torch.inference_mode()
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        compute = torch.cuda.current_stream(self.device)
        for step in range(self.ahead + 1):
            self._prefetch(step)
        for index, layer in enumerate(self.layers):
            weights = self._claim(index, compute)
            hidden = functional_call(layer, weights, (hidden,))
            del weights
            self._prefetch(index + self.ahead + 1)
        return hidden

    def drop(self) -> None:
        self.resident.clear()
        self.ready.clear()


def make(depth: int, width: int, device: torch.device) -> LayerStreamer:
    layers = [
        nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                      nn.Linear(4 * width, width))
        for _ in range(depth)
    ]
    return LayerStreamer(layers, device)


if __name__ == "__main__":
    dev = torch.device("cuda")
    torch.cuda.set_device(0)
    streamer = make(24, 1024, dev)
    y = streamer.forward(torch.randn(8, 128, 1024, device=dev))
    print(float(y.square().mean()))
