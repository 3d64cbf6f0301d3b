"""Auxiliary head evaluated on its own stream; gradients follow the forward's streams."""
from typing import List, Tuple

import torch
import torch.nn as nn


class Trunk(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x


class DualHead(nn.Module):
    def __init__(self, width: int, classes: int):
        super().__init__()
        self.trunk = Trunk(width, 6)
        self.classifier = nn.Linear(width, classes)
        self.auxiliary = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.side: torch.cuda.Stream = None

    def losses(self, x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        main = torch.cuda.current_stream()
        if self.side is None:
            self.side = torch.cuda.Stream()
        h = self.trunk(x)
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            h.record_stream(self.side)
            x.record_stream(self.side)
            aux = nn.functional.mse_loss(self.auxiliary(h), x)
        primary = nn.functional.cross_entropy(self.classifier(h), y)
        main.wait_stream(self.side)
        aux.record_stream(main)
        return primary, aux


class Trainer:
    def __init__(self, width: int = 1024, classes: int = 100):
        self.model = DualHead(width, classes).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.curve: List[torch.Tensor] = []

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        primary, aux = self.model.losses(x, y)
        loss = primary + 0.1 * aux
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.curve.append(loss.detach())


def main() -> None:
    trainer = Trainer()
    for _ in range(100):
        x = torch.randn(4096, 1024, device="cuda")
        y = torch.randint(0, 100, (4096,), device="cuda")
        trainer.step(x, y)
    print(torch.stack(trainer.curve)[-5:].tolist())


if __name__ == "__main__":
    main()
