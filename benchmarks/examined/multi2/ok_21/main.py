import argparse

import torch
import torch.nn.functional as F
from torch import nn

from cpuopt import HostOptimizer


class Tower(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.out(x)


def main(steps=200, dim=2048, depth=6):
    torch.manual_seed(1)
    model = Tower(dim, depth).cuda()
    optimizer = HostOptimizer(model)
    for step in range(steps):
        x = torch.randn(256, dim, device="cuda")
        loss = F.smooth_l1_loss(model(x), x.flip(1))
        loss.backward()
        if step % 20 == 0:
            print(step, loss.item())
    optimizer.flush()
    torch.save(model.state_dict(), "tower.pt")


def parse():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--depth", type=int, default=6)
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(parse()))
