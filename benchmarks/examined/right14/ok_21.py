"""Two-branch classifier whose branches run on separate streams in training."""
from __future__ import annotations

import torch
from torch import nn


class DualBranch(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.spatial = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()
        )
        self.context = nn.Sequential(
            nn.Conv2d(3, 32, 7, stride=4, padding=3), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1)
        )
        self.head = nn.Linear(128, classes)
        self.side: torch.cuda.Stream | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.side is None:
            self.side = torch.cuda.Stream(x.device)
        main = torch.cuda.current_stream(x.device)
        self.side.wait_stream(main)
        x.record_stream(self.side)
        with torch.cuda.stream(self.side):
            c = self.context(x).mean((2, 3))
        s = self.spatial(x).mean((2, 3))
        main.wait_stream(self.side)
        c.record_stream(main)
        return self.head(torch.cat([s, c], dim=1))


class Trainer:
    def __init__(self, model: DualBranch, lr: float) -> None:
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        for p in model.parameters():
            p.grad = torch.zeros_like(p)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.opt.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.opt.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self, x: torch.Tensor, y: torch.Tensor) -> float:
        self.model.eval()
        try:
            return (self.model(x).argmax(1) == y).float().mean().item()
        finally:
            self.model.train()


def main() -> None:
    device = torch.device("cuda:0")
    trainer = Trainer(DualBranch(10).to(device), 0.01)
    losses = []
    for _ in range(20):
        x = torch.randn(32, 3, 64, 64, device=device)
        y = torch.randint(0, 10, (32,), device=device)
        losses.append(trainer.step(x, y))
    print(torch.stack(losses).tolist())
    print(trainer.evaluate(x, y))


if __name__ == "__main__":
    main()
