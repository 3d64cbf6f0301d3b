"""Layers spread over several devices; activations move with ``Tensor.to`` between current streams."""
from typing import Iterable, List, Sequence, Tuple

import torch
from torch import nn


def split_layers(layers: Sequence[nn.Module], devices: Sequence[torch.device]) -> List[Tuple[torch.device, nn.Sequential]]:
    per_device = (len(layers) + len(devices) - 1) // len(devices)
    stages = []
    for i, device in enumerate(devices):
        chunk = layers[i * per_device : (i + 1) * per_device]
        if chunk:
            stages.append((device, nn.Sequential(*chunk).to(device)))
    return stages


class DeviceMappedModel(nn.Module):
    """A copy between devices waits for the current stream of both of them, so no event is needed."""

    def __init__(self, embed: nn.Embedding, layers: Sequence[nn.Module], head: nn.Module, devices: Sequence[torch.device]):
        super().__init__()
        self.devices = list(devices)
        self.embed = embed.to(devices[0])
        self.stages = split_layers(layers, devices)
        self.blocks = nn.ModuleList(stage for _, stage in self.stages)
        self.head = head.to(devices[-1])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens.to(self.devices[0], non_blocking=True))
        for device, stage in self.stages:
            x = x.to(device, non_blocking=True)
            x = stage(x)
        return self.head(x.to(self.devices[-1], non_blocking=True))


class Trainer:
    def __init__(self, model: DeviceMappedModel, lr: float):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.scratch = torch.zeros(1, device=model.devices[0])

    def _global_norm(self) -> torch.Tensor:
        total = self.scratch.zero_()
        for p in self.model.parameters():
            if p.grad is not None:
                total += p.grad.float().square().sum().to(total.device, non_blocking=True)
        return total.sqrt()

    def step(self, tokens: torch.Tensor, labels: torch.Tensor, max_norm: float) -> torch.Tensor:
        logits = self.model(tokens)
        labels = labels.to(logits.device, non_blocking=True)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        scale = (max_norm / (self._global_norm() + 1e-6)).clamp_(max=1.0)
        for p in self.model.parameters():
            if p.grad is not None:
                p.grad.mul_(scale.to(p.grad.device, non_blocking=True))
        self.optimizer.step()
        return loss.detach()

    def fit(self, loader: Iterable[Tuple[torch.Tensor, torch.Tensor]], max_norm: float = 1.0) -> List[float]:
        losses = [self.step(tokens, labels, max_norm) for tokens, labels in loader]
        return [loss.item() for loss in losses]
