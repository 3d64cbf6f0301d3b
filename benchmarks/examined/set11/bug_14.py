"""Runs a stack of linear layers whose weights stream in from pinned host memory."""
from dataclasses import dataclass
from typing import List

import torch
import torch.nn.functional as F


@dataclass
class WeightSlot:
    weight: torch.Tensor
    bias: torch.Tensor
    ready: torch.cuda.Event
    free: torch.cuda.Event


class HostWeights:
    def __init__(self, layers: List[torch.nn.Linear]):
        self.weights = [layer.weight.detach().cpu().pin_memory() for layer in layers]
        self.biases = [layer.bias.detach().cpu().pin_memory() for layer in layers]

    def __len__(self) -> int:
        return len(self.weights)


class StreamedMLP:
    def __init__(self, host: HostWeights, device: torch.device, num_slots: int = 2):
        self.host = host
        self.device = device
        self.transfer_stream = torch.cuda.Stream(device)
        self.slots = [
            WeightSlot(
                weight=torch.empty_like(host.weights[0], device=device),
                bias=torch.empty_like(host.biases[0], device=device),
                ready=torch.cuda.Event(),
                free=torch.cuda.Event(),
            )
            for _ in range(num_slots)
        ]
        self.transfer_stream.wait_stream(torch.cuda.current_stream(device))

    def _slot(self, index: int) -> WeightSlot:
        return self.slots[index % len(self.slots)]

    def _prefetch(self, index: int) -> None:
        slot = self._slot(index)
        self.transfer_stream.wait_event(slot.free)
        with torch.cuda.stream(self.transfer_stream):
            slot.weight.copy_(self.host.weights[index], non_blocking=True)
            slot.bias.copy_(self.host.biases[index], non_blocking=True)
            slot.ready.record(self.transfer_stream)

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._prefetch(0)
        for index in range(len(self.host)):
            if index + 1 < len(self.host):
                self._prefetch(index + 1)
            slot = self._slot(index)
            x = F.linear(x, slot.weight, slot.bias)
            slot.free.record()
            if index + 1 < len(self.host):
                x = F.gelu(x)
        return x


def evaluate(model: StreamedMLP, batches) -> float:
    total, count = 0.0, 0
    for x, y in batches:
        out = model.forward(x.to(model.device))
        total += F.mse_loss(out, y.to(model.device)).item()
        count += 1
    return total / max(count, 1)
