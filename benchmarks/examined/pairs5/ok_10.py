"""Activation offload as an autograd function: saved tensor goes to pinned memory and returns in backward."""
import torch
from torch import nn


class OffloadContext:
    def __init__(self):
        self.down = torch.cuda.Stream()
        self.up = torch.cuda.Stream()

    def park(self, t):
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        self.down.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.down):
            host.copy_(t, non_blocking=True)
            parked = torch.cuda.Event()
            parked.record()
        t.record_stream(self.down)
        return host, parked

    def fetch(self, host, parked):
        main = torch.cuda.current_stream()
        self.up.wait_event(parked)
        with torch.cuda.stream(self.up):
            t = host.to("cuda", non_blocking=True)
        main.wait_stream(self.up)
        t.record_stream(main)
        return t


class OffloadedGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, offload):
        ctx.offload = offload
        ctx.host, ctx.parked = offload.park(x)
        return torch.nn.functional.gelu(x)

    @staticmethod
    def backward(ctx, grad):
        x = ctx.offload.fetch(ctx.host, ctx.parked)
        cdf = 0.5 * (1 + torch.erf(x * 0.70710678))
        pdf = torch.exp(-0.5 * x * x) * 0.39894228
        return grad * (cdf + x * pdf), None


class Block(nn.Module):
    def __init__(self, dim, offload):
        super().__init__()
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.offload = offload

    def forward(self, x):
        return x + self.down(OffloadedGelu.apply(self.up(x), self.offload))


def main():
    offload = OffloadContext()
    net = nn.Sequential(*[Block(512, offload) for _ in range(6)]).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)
    for step in range(20):
        loss = net(torch.randn(256, 512, device="cuda")).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
