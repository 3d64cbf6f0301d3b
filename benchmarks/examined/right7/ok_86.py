"""Graphed callables for the static part of a model."""
import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.static = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))
        self.small, self.large = nn.Linear(dim, 1), nn.Linear(dim, 1)

    def capture(self, batch: int, dim=128):
        sample = torch.randn(batch, dim, device="cuda", requires_grad=True)
        self.static = torch.cuda.make_graphed_callables(self.static, (sample,))

    def forward(self, x):
        h = self.static(x)
        branch = self.large if h.detach().norm().item() > 1.0 else self.small
        return branch(h)


def feed(n, batch):
    side = torch.cuda.Stream()
    for _ in range(n):
        host = torch.randn(batch, 128, pin_memory=True)
        with torch.cuda.stream(side):
            dev = host.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        dev.record_stream(torch.cuda.current_stream())
        yield dev


def main():
    net = Router().cuda()
    net.capture(32)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for x in feed(20, 32):
        opt.zero_grad(set_to_none=True)
        loss = net(x.requires_grad_()).square().mean()
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
