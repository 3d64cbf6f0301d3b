from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F


class Scale(torch.autograd.Function):
    """Multiplies by a constant; backward uses whatever stream the engine set."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


class Branch(nn.Module):
    def __init__(self, width: int, factor: float):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Scale.apply(self.down(F.gelu(self.up(x))), self.factor)


class ForkJoin(nn.Module):
    def __init__(self, width: int, side: torch.cuda.Stream):
        super().__init__()
        self.main_branch = Branch(width, 1.0)
        self.side_branch = Branch(width, 0.5)
        self.norm = nn.LayerNorm(width)
        self.side = side

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        current = torch.cuda.current_stream()
        self.side.wait_stream(current)
        h.record_stream(self.side)
        with torch.cuda.stream(self.side):
            b = self.side_branch(h)
        a = self.main_branch(h)
        current.wait_stream(self.side)
        b.record_stream(current)
        return x + a + b


class Model(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        side = torch.cuda.Stream()
        self.blocks = nn.ModuleList(ForkJoin(width, side) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def fit(model: Model, steps: int, width: int) -> List[float]:
    opt = torch.optim.Adam(model.parameters(), lr=3e-4)
    losses = []
    for _ in range(steps):
        x = torch.randn(512, width, device="cuda")
        y = x[:, :4].sum(dim=1, keepdim=True)
        loss = F.mse_loss(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def main():
    torch.manual_seed(0)
    width = 768
    model = Model(width, depth=6).cuda()
    losses = fit(model, steps=50, width=width)
    print(losses[0], losses[-1])


if __name__ == "__main__":
    main()
