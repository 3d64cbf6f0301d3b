"""Optimizer whose update runs beside the host-side and device-side input work."""
from __future__ import annotations

import torch
from torch import nn


class OverlappedOptimizer:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model = model
        self.optimizer = optimizer
        self.device = next(model.parameters()).device
        self.stream = torch.cuda.Stream(self.device)
        self.done = torch.cuda.Event()
        self._handle = model.register_forward_pre_hook(self._before_forward)

    def _before_forward(self, module: nn.Module, args) -> None:
        self.synchronize()

    def synchronize(self) -> None:
        torch.cuda.current_stream(self.device).wait_event(self.done)

    def step(self) -> None:
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        try:
            with torch.cuda.stream(self.stream):
                self.optimizer.step()
        finally:
            self.done.record(self.stream)
            for group in self.optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.grad.record_stream(self.stream)
                        p.grad = None

    def weights(self) -> dict[str, torch.Tensor]:
        self.synchronize()
        return {k: v.detach().clone() for k, v in self.model.state_dict().items()}

    def close(self) -> None:
        self.synchronize()
        self._handle.remove()


def augment(x: torch.Tensor) -> torch.Tensor:
    noise = torch.randn_like(x).mul_(0.02)
    flipped = torch.where(torch.rand(x.shape[0], 1, 1, 1, device=x.device) < 0.5, x.flip(-1), x)
    return flipped + noise


def run(model: nn.Module, loader, device: torch.device) -> dict[str, torch.Tensor]:
    optimizer = OverlappedOptimizer(
        model, torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    )
    try:
        for images, labels in loader:
            images = augment(images.to(device))
            labels = labels.to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        return optimizer.weights()
    finally:
        optimizer.close()


if __name__ == "__main__":
    dev = torch.device("cuda:0")
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, 10),
    ).to(dev)
    data = [(torch.randn(32, 3, 64, 64), torch.randint(0, 10, (32,))) for _ in range(20)]
    print(sorted(run(net, data, dev)))
