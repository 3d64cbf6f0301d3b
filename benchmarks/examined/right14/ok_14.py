"""Captures a two-tower block with a forked branch into one CUDA graph."""
from __future__ import annotations

import torch
from torch import nn


class TwoTower(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.left = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.right = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.branch: torch.cuda.Stream | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.branch is None:
            self.branch = torch.cuda.Stream(x.device)
        main = torch.cuda.current_stream(x.device)
        for left, right in zip(self.left, self.right):
            self.branch.wait_stream(main)
            with torch.cuda.stream(self.branch):
                b = torch.tanh(right(x))
            a = torch.sigmoid(left(x))
            main.wait_stream(self.branch)
            x = a * b
            b.record_stream(main)
        return x


class GraphedTower:
    def __init__(self, model: TwoTower, batch: int, width: int, device: torch.device) -> None:
        self.model = model.eval()
        self.x = torch.zeros(batch, width, device=device)
        self.device = device
        self.graph = torch.cuda.CUDAGraph()
        warm = torch.cuda.Stream(device)
        warm.wait_stream(torch.cuda.current_stream(device))
        with torch.no_grad(), torch.cuda.stream(warm):
            for _ in range(3):
                self.model(self.x)
        torch.cuda.current_stream(device).wait_stream(warm)
        torch.cuda.synchronize(device)
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.y = self.model(self.x)

    def __call__(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        self.x.copy_(x)
        self.graph.replay()
        if out is None:
            return self.y.clone()
        return out.copy_(self.y)


def scan(tower: GraphedTower, sequence: torch.Tensor) -> torch.Tensor:
    state = torch.zeros_like(tower.x)
    outputs = torch.empty_like(sequence)
    for t in range(sequence.shape[0]):
        state = tower(sequence[t] + state)
        outputs[t].copy_(state)
    return outputs


def main() -> None:
    device = torch.device("cuda:0")
    torch.cuda.set_device(device)
    tower = GraphedTower(TwoTower(512, 4).to(device), 32, 512, device)
    seq = torch.randn(20, 32, 512, device=device)
    out = scan(tower, seq)
    print(out.shape, out[-1].abs().max().item())


if __name__ == "__main__":
    main()
