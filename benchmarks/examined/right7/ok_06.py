"""Branch parallelism as a pair of autograd functions."""
import torch
from torch import nn


class Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, side, x):
        ctx.main, ctx.side = torch.cuda.current_stream(), side
        side.wait_stream(ctx.main)
        x.record_stream(side)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        ctx.main.wait_stream(ctx.side)
        grad.record_stream(ctx.main)
        return None, grad


class Leave(torch.autograd.Function):
    @staticmethod
    def forward(ctx, side, y):
        ctx.main, ctx.side = torch.cuda.current_stream(), side
        ctx.main.wait_stream(side)
        y.record_stream(ctx.main)
        return y.view_as(y)

    @staticmethod
    def backward(ctx, grad):
        ctx.side.wait_stream(ctx.main)
        grad.record_stream(ctx.side)
        return None, grad


class TwoTower(nn.Module):
    def __init__(self, dim=256):
        super().__init__()
        self.left = nn.Linear(dim, dim)
        self.right = nn.Sequential(nn.Linear(dim, dim), nn.Tanh())
        self.side = torch.cuda.Stream()

    def forward(self, x):
        xs = Enter.apply(self.side, x)
        with torch.cuda.stream(self.side):
            r = self.right(xs)
        l = self.left(x)
        return l + Leave.apply(self.side, r)


def main():
    net = TwoTower().cuda()
    opt = torch.optim.AdamW(net.parameters())
    for _ in range(5):
        x = torch.randn(64, 256, device="cuda", requires_grad=True)
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        net.side.wait_stream(torch.cuda.current_stream())
        opt.zero_grad()
    print(loss.item())


if __name__ == "__main__":
    main()
