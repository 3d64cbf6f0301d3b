"""Micro-batches through a graphed block; losses and outputs are copied before the next call."""
import torch
from torch import nn


class GraphedTrunk(nn.Module):
    def __init__(self, dim, sample):
        super().__init__()
        trunk = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)).cuda()
        self.params = list(trunk.parameters())
        for p in self.params:
            p.grad = torch.zeros_like(p)
        self.trunk = torch.cuda.make_graphed_callables(trunk, (sample,))

    def forward(self, x):
        return self.trunk(x)


class History:
    def __init__(self):
        self.rows = []

    def add(self, out):
        self.rows.append(out.detach().clone())

    def spread(self):
        return torch.stack(self.rows).var(dim=0).mean()


def main():
    torch.manual_seed(0)
    dim = 512
    model = GraphedTrunk(dim, torch.randn(64, dim, device="cuda"))
    opt = torch.optim.SGD(model.params, lr=1e-3)
    history = History()
    for step in range(10):
        opt.zero_grad(set_to_none=False)
        for micro in range(4):
            x = torch.randn(64, dim, device="cuda")
            out = model(x)
            loss = (out - x).square().mean()
            loss.backward()
            history.add(out)
        opt.step()
    print(history.spread().item())


if __name__ == "__main__":
    main()
